"""A temporary folder goes with its process: at once where that ends, with the next process where it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phasewise.workers import scratch
from phasewise.workers.scratch import HELD, make_scratch, sweep_scratch

HOLDER = """
import sys, time
from phasewise.workers.scratch import make_scratch
with make_scratch("test") as folder:
    (folder / "large").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def hold() -> tuple[subprocess.Popen[str], Path]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    return holder, Path(holder.stdout.readline().strip())


def age(folder: Path) -> None:
    os.utime(folder / HELD, (0, 0))


def test_it_is_gone_at_the_end_also_of_one_that_raised(top: Path) -> None:
    with pytest.raises(KeyError), make_scratch("test") as folder:
        assert folder.parent == top and folder.name.startswith("phasewise-test-")
        raise KeyError
    assert not list(top.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(top: Path) -> None:
    killed, left = hold()
    killed.kill()
    killed.communicate()
    living, held = hold()
    notes, link = top / "phasewise-notes", top / "phasewise-link"
    notes.mkdir()
    link.symlink_to(left)
    try:
        with make_scratch("another"):
            assert left.is_dir(), "it may be about to be locked"
        age(left)
        age(held)
        with make_scratch("another"):
            assert not left.exists()
        assert (held / "large").exists() and notes.is_dir() and link.is_symlink()
    finally:
        living.kill()
        living.communicate()


def test_somebody_elses_folder_is_left_alone(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = top / "phasewise-theirs"
    folder.mkdir()
    (folder / HELD).touch()
    age(folder)
    monkeypatch.setattr(scratch.os, "geteuid", lambda: os.getuid() + 1)
    sweep_scratch(top)
    assert folder.is_dir()
    monkeypatch.undo()
    sweep_scratch(top)
    assert not folder.exists()
