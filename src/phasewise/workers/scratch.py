"""Temporary folders of ours; one whose process was killed is removed by a later process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "phasewise-"
# locked in each folder for as long as its process lives
HELD = ".held"
# seconds after which a folder in use is surely locked
SETTLED_S = 60.0


@contextlib.contextmanager
def make_scratch(purpose: str) -> Iterator[Path]:
    """A temporary folder, removed at the end."""
    sweep_scratch(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
    held = os.open(folder / HELD, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep_scratch(top: Path) -> None:
    """Remove the folders in `top` that belong to this user and that no process holds any more."""
    for mark in top.glob(f"{PREFIX}*/{HELD}"):
        # one that is removed meanwhile, or somebody else's
        with contextlib.suppress(OSError):
            is_ours = mark.parent.lstat().st_uid == os.geteuid() and not mark.parent.is_symlink()
            if is_ours and time.time() - mark.lstat().st_mtime > SETTLED_S:
                _remove_unheld(mark)


def _remove_unheld(mark: Path) -> None:
    handle = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(mark.parent, ignore_errors=True)
    finally:
        os.close(handle)
