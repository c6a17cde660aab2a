"""Lock files that keep jobs apart, also those of other runs; a lock is gone with the process that holds it, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from phasewise.records.errors import UserError

POLL_S = 0.2
# how often a job says that it still waits
REMINDER_S = 30.0
WAITING = "another run is measuring on this machine; waiting for it"


def open_lock(held: contextlib.ExitStack, name: str) -> int:
    """The file of the lock `name`, not locked yet; closed, and with that unlocked, when `held` is."""
    path = Path(os.environ.get("PHASEWISE_LOCK_DIR", tempfile.gettempdir())) / f"phasewise-{name}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise UserError(
            f"{path}: the lock that keeps two runs from measuring at once can't be opened ({error.strerror}); "
            "set PHASEWISE_LOCK_DIR to a folder that you may write to"
        ) from error
    held.callback(os.close, handle)
    return handle


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Whether the file could be locked at once."""
    try:
        fcntl.flock(handle, _kind(shared) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(handle: int, *, shared: bool = False) -> None:
    """Lock the file after all who have waited longer."""
    fcntl.flock(handle, _kind(shared))


def unlock(handle: int) -> None:
    """Let others lock the file."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def poll(is_done: Callable[[], bool]) -> None:
    """Ask until it is done, and say now and then that this job waits."""
    reminder = time.monotonic()
    while not is_done():
        if time.monotonic() >= reminder:
            print(WAITING, file=sys.stderr, flush=True)
            reminder = time.monotonic() + REMINDER_S
        time.sleep(POLL_S)


def _kind(shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX
