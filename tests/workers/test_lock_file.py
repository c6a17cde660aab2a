"""Locks between users, and under whoever moves, deletes or plants their files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from phasewise.records.errors import UserError
from phasewise.workers.lock import lock_machine
from phasewise.workers.lock_file import LockFile

# a user that owns nothing
NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o077)
    yield tmp_path / "some.lock"
    os.umask(before)


def test_every_user_may_open_a_lock_whatever_the_umask(path: Path) -> None:
    LockFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    # one that an earlier version made
    path.chmod(0o644)
    LockFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_two_users_keep_each_other_out(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # as /tmp is: all may write to it, and each deletes only what is his
        Path(folder).chmod(0o1777)
        _meet(Path(folder) / "some.lock")


def _meet(path: Path) -> None:
    mine = LockFile(path)
    assert mine.try_lock()
    code = (
        "import fcntl, os, sys\n"
        f"os.setuid({NOBODY})\n"
        "handle = os.open(sys.argv[1], os.O_RDWR)\n"
        "try:\n    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept BlockingIOError:\n    print('locked')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "locked\n"
    mine.close()


def test_a_lock_that_may_not_be_written_to_is_one_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("phasewise.workers.lock_file.os.open", refuse)
    with pytest.raises(UserError) as caught:
        LockFile(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: ") and "(Permission denied)" in told and "have its owner delete it" in told
    assert "PHASEWISE_LOCK_DIR" in told and "\n" not in told


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_is_never_followed(path: Path, target: str) -> None:
    (path.parent / "there").write_text("precious")
    path.symlink_to(path.parent / target)
    with pytest.raises(UserError, match="can't be opened"):
        LockFile(path)
    assert sorted(found.name for found in path.parent.iterdir()) == ["some.lock", "there"]


def test_a_file_of_another_name_is_no_lock_and_stays_private(path: Path) -> None:
    private = path.parent / "private"
    private.write_text("precious")
    private.chmod(0o600)
    path.hardlink_to(private)
    with pytest.raises(UserError, match="no plain file"):
        LockFile(path)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_folder_or_a_pipe_is_no_lock(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(UserError, match="no plain file"):
        LockFile(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match="can't be opened"):
        LockFile(path)


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_who_waited_on_a_file_that_has_gone_waits_for_the_one_in_its_place(path: Path, how: str) -> None:
    first, waiting = LockFile(path), LockFile(path)
    assert first.try_lock() and not waiting.try_lock()
    path.rename(path.with_suffix(".old")) if how == "moved" else path.unlink()
    newcomer = LockFile(path)
    assert newcomer.try_lock()
    first.close()
    # it gets the old file, which keeps out nobody any more
    assert not waiting.try_lock()
    newcomer.close()
    assert waiting.try_lock()
    other = LockFile(path)
    assert not other.try_lock() and not other.try_lock(shared=True)
    other.close()
    waiting.close()


def test_a_pool_alone_shows_a_job_its_gpu_and_then_all_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PHASEWISE_GPUS", "0, 1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(
        "phasewise.workers.lock.name_gpus", lambda entries: {entry: f"GPU-{entry}" for entry in entries}
    )
    with lock_machine("h200"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
        with lock_machine("h200"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
