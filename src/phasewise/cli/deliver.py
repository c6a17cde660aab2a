"""What a command found: as a page, as JSON, as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from phasewise.cli.say import say
from phasewise.records.base import Record
from phasewise.store import encode, write_bytes

R = TypeVar("R", bound=Record)


def deliver(
    found: R, *, lines: Callable[[R], str], render: Callable[[R], str], file: Path | None, page: Path | None
) -> bool:
    """Write the page and the file that were asked for, and say the lines; False where JSON takes their place, for the file `-`."""
    if page is not None:
        write_bytes(render(found).encode(), page)
    if file is not None and str(file) == "-":
        sys.stdout.buffer.write(encode(found))
        return False
    if file is not None:
        write_bytes(encode(found), file)
    say(lines(found))
    return True
