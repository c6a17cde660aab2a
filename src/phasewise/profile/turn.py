"""Profiles that are made side by side touch the GPU one at a time; what they read off their traces meanwhile needs none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from phasewise.workers.lock_file import LockFile

POLL_S = 0.05


@contextlib.contextmanager
def take_turn(path: Path | None) -> Iterator[None]:
    """Wait until no other process or thread locks the file at `path`, then lock it; without a path there is no other."""
    if path is None:
        yield
        return
    with contextlib.closing(LockFile(path)) as file:
        while not file.try_lock():
            time.sleep(POLL_S)
        yield
