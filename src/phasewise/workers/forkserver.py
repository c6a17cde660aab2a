"""Starting the fork server of a run: `bench/forkserver.py`, from which workers are forked that need not import torch again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# where the server listens, for the processes of this run
SERVER = "PHASEWISE_FORK_SERVER"
# and behind this, the one that has imported the tools of a profile
TOOLED = ".tooled"


def start_fork_server() -> int:
    """Start a server for the processes that this one starts from now on; returns the open file whose end is the server's."""
    path = str(Path(tempfile.mkdtemp(prefix="phasewise-")) / "forkserver")
    until, held = os.pipe()
    with _listen(path) as plain, _listen(path + TOOLED) as tooled:
        listeners = plain.fileno(), tooled.fileno()
        subprocess.Popen(
            [sys.executable, "-m", "phasewise.bench.forkserver", *map(str, listeners)],
            stdin=until,
            stdout=subprocess.DEVNULL,
            pass_fds=listeners,
            # it hears of the end by its stdin, not by a Ctrl-C for the whole group, and cleans up
            start_new_session=True,
        )
    os.close(until)
    os.environ[SERVER] = path
    return held


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    return listener
