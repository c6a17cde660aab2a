"""Where a cheat finds the pipe that its worker answers on."""

from __future__ import annotations

import os
from pathlib import Path


def find_pipes() -> list[int]:
    """Pipes that this process can write, but for its standard streams."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            flags = int(Path(f"/proc/self/fdinfo/{entry.name}").read_text().split("flags:")[1].split()[0], 8)
            if int(entry.name) > 2 and str(entry.readlink()).startswith("pipe:") and flags & os.O_WRONLY:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
