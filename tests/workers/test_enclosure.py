"""An enclosed process has no network, sees no other process, and writes to its own folder alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phasewise.records.errors import UserError
from phasewise.records.verdict import Failure, Reason
from phasewise.workers import enclosure
from phasewise.workers.enclosure import WRAPS, Enclosure, find_enclosure
from phasewise.workers.isolated import run_isolated
from phasewise.workers.process import Process

REACH = Path(__file__).with_name("reach.py")


def enclose(tmp_path: Path, kind: str) -> Enclosure:
    for name in ("scratch", "project", "judge"):
        (tmp_path / name).mkdir()
    found = Enclosure(
        kind=kind, scratch=tmp_path / "scratch", shown=(REACH.parent, tmp_path / "project"), hidden=(tmp_path / "judge",)
    )  # fmt: skip
    if not enclosure._holds(found):
        pytest.skip(f"{kind} can't enclose a process here")
    return found


@pytest.mark.parametrize("kind", WRAPS)
def test_a_process_reaches_nothing_but_its_own_folder(tmp_path: Path, kind: str) -> None:
    inside = enclose(tmp_path, kind)
    (file := tmp_path / "project" / "file").write_text("as it was")
    (secret := tmp_path / "judge" / "secret").write_text("right")
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = {
            "port": server.getsockname()[1], "file": str(file), "secret": str(secret), "pid": os.getpid(),
        }  # fmt: skip
        free = run_isolated(f"{REACH}:look_around", told)
        found = run_isolated(f"{REACH}:look_around", told, enclosure=inside)
    assert free["connected"] and free["wrote"] and free["secret"] and free["sent a signal"]
    assert found == {
        "connected": False, "interfaces": ["lo"], "wrote": False, "read": True, "secret": False, "sent a signal": False, "saw memory": False,
        "kept": True, "mounted": False, "disks": [], "capabilities": "CapEff:\t0000000000000000",
    }  # fmt: skip
    assert list((tmp_path / "scratch" / "tmp").iterdir())


def wait_for_end(pid: int) -> bool:
    """Whether it ends in time; whoever inherits it may leave it a zombie for a while."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("kind", WRAPS)
def test_its_death_is_told_apart_and_it_is_known_by_its_number(tmp_path: Path, kind: str) -> None:
    inside = enclose(tmp_path, kind)
    died = run_isolated("os:abort", None, enclosure=inside)
    assert isinstance(died, Failure) and died.reason is Reason.CRASH
    process = Process(environment={}, folder=tmp_path, enclosure=inside)
    try:
        process.send("import")
        assert process.channel.receive(60) == {"answer": None}
        assert "phasewise.bench.worker" in Path(f"/proc/{process.pid}/cmdline").read_text()
        inner = process.pid
    finally:
        process.kill()
    assert wait_for_end(inner)


def test_where_nothing_can_enclose_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosure, "WRAPS", {"user namespaces": ("no-such-program",), "bubblewrap": ("false",)})
    with pytest.raises(UserError, match="neither bubblewrap nor user namespaces work here; install bubblewrap"):
        find_enclosure(tmp_path)


def test_an_enclosure_that_does_not_hold_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name that only runs the command keeps nothing apart."""
    monkeypatch.setattr(enclosure, "WRAPS", {"bubblewrap": (sys.executable, "-c", "pass")})
    open_to_all = Enclosure(kind="bubblewrap", scratch=tmp_path)
    monkeypatch.setattr(Enclosure, "wrap", lambda self, command, folder: list(command))
    assert subprocess.run(open_to_all.wrap(["true"], tmp_path), check=False).returncode == 0
    assert not enclosure._holds(open_to_all)
