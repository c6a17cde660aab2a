"""A group of processes that does not outlive the process which started it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

# waits for a line from us; without one, we have gone before the group
GUARD = 'read -r line || kill -KILL "-$1"'


@contextlib.contextmanager
def end_group_with_us(group: int) -> Iterator[None]:
    """Have a process kill the group if this one ends in here, as only another can when this one is killed."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(group)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        guard.communicate(b"\n")
