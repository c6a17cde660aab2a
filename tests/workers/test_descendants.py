"""What a worker starts in a session of its own, and what is left of that by parents that have gone, ends with the worker."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from phasewise.workers.forkserver import SERVER
from phasewise.workers.isolated import run_isolated

GONE_S = 10
VICTIM = """
import os, signal, subprocess, sys

def start(seconds):
    # one in a session of its own, and one whose parent has gone
    for words in (["sleep", seconds], [sys.executable, "-c", f"import subprocess; subprocess.Popen(['sleep', '{seconds}'])"]):
        subprocess.Popen(words, start_new_session=True)
    while sum(seconds in read(pid) and b"sleep" == read(pid)[:5].encode() for pid in os.listdir("/proc") if pid.isdigit()) < 2:
        pass

def read(pid):
    try:
        return open(f"/proc/{pid}/cmdline").read()
    except OSError:
        return ""

def leave(seconds):
    start(seconds)
    return {"outcome": "pass"}

def die(seconds):
    start(seconds)
    os.abort()

def hang(seconds):
    start(seconds)
    signal.pause()
"""


def sleepers(seconds: str) -> list[int]:
    return [
        process.pid for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", seconds]
    ]


@pytest.mark.parametrize("fresh", [False, True], ids=["forked", "fresh"])
@pytest.mark.parametrize(("how", "seconds"), [("leave", "7001.25"), ("die", "7002.25"), ("hang", "7003.25")])
def test_what_a_worker_started_ends_with_it(
    how: str, seconds: str, fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fresh:
        monkeypatch.delenv(SERVER, raising=False)
    (tmp_path / "victim.py").write_text(VICTIM)
    run_isolated(f"{tmp_path}/victim.py:{how}", seconds, folder=tmp_path, timeout_s=10.0)
    deadline = time.monotonic() + GONE_S
    while sleepers(seconds):
        assert time.monotonic() < deadline, "what a worker started outlives it"
        time.sleep(0.1)
