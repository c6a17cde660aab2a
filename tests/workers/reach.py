"""What a process can reach from where it is; each function is called in one of its own."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path


def look_around(told):
    """{port, file, folder, pid}, of what is outside, to what could be done with them."""
    return {
        "connected": _can(lambda: socket.create_connection(("127.0.0.1", told["port"]), timeout=5)),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "wrote": _can(lambda: Path(told["file"]).write_text("edited")),
        "read": _can(lambda: Path(told["file"]).read_text()),
        "secret": _can(lambda: Path(told["secret"]).read_text()),
        "sent a signal": _can(lambda: os.kill(told["pid"], 0)),
        "saw memory": _can(lambda: Path(f"/proc/{told['pid']}/mem").open("rb")),
        "kept": _can(lambda: tempfile.NamedTemporaryFile(delete=False)),
        "mounted": os.system("mount -o remount,bind,rw / 2>/dev/null") == 0,
        "disks": [str(path) for path in Path("/dev").glob("[sv]d*")],
        "capabilities": next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")),
    }  # fmt: skip


def _can(act):
    try:
        act()
    except OSError:
        return False
    return True
