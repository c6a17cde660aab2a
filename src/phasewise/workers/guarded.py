"""A group of processes that does not outlive the process which started it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

# waits for a line from us; without one, we have gone before the group. Signals that are meant for the group leave it in place
GUARD = 'trap "" HUP INT TERM; read -r line || kill -KILL 0'


@contextlib.contextmanager
def guard_group() -> Iterator[int]:
    """The number of a group, for `Popen(process_group=...)`. It is killed if this process ends in here, however it does.

    The first in it is the one that kills it, since nothing else can when this process is killed; what joins is never unguarded.
    """
    guard = subprocess.Popen(["/bin/sh", "-c", GUARD], stdin=subprocess.PIPE, process_group=0)
    try:
        yield guard.pid
    finally:
        guard.communicate(b"\n")
