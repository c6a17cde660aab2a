"""Profiles that are made side by side touch the GPU one at a time; what they read off their traces meanwhile needs none."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def take_turn(path: Path | None) -> Iterator[None]:
    """Wait until no other process or thread holds the file at `path`, then keep it; without a path there is no other."""
    if path is None:
        yield
        return
    # to read, since it may be another user's
    with path.open("rb") as file:
        # gone with the process, however it ends
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
