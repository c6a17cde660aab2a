"""A file that processes lock against each other: of any user of the machine, for as long as the file stands where it is looked for."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from phasewise.records.errors import UserError

# for every user, whatever the umask
MODE = 0o666


class LockFile:
    """The file at `path`, made where there is none. Its lock is gone with the process, however that ends.

    Raises:
        UserError: it can't be opened for writing, or is no plain file with this one name; a link is never followed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = _open(path)

    def try_lock(self, *, shared: bool = False) -> bool:
        """Whether it could be locked at once."""
        while True:
            try:
                fcntl.flock(self._handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self._is_in_place():
                return True
            # moved or deleted since it was opened: others lock the one that stands there now
            self.close()
            self._handle = _open(self._path)

    def close(self) -> None:
        os.close(self._handle)

    def _is_in_place(self) -> bool:
        try:
            there = self._path.lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._handle))


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            # without O_CREAT, which in a folder that all write to Linux refuses for a file of somebody else
            handle = os.open(path, flags)
        except FileNotFoundError:
            handle = _create(path, flags)
    except OSError as error:
        raise UserError(
            f"{path}: the lock that keeps two runs apart can't be opened ({error.strerror}); have its owner delete it or make it "
            "writable for all, or set PHASEWISE_LOCK_DIR to a folder that you may write to"
        ) from error
    found = os.fstat(handle)
    # of two names one may be a file that is not meant to be a lock
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise UserError(f"{path}: the lock that keeps two runs apart is no plain file; delete it")
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != MODE:
        os.fchmod(handle, MODE)
    return handle


def _create(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        # another process was first, or it is a link that leads nowhere
        return os.open(path, flags)
