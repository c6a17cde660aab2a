"""A time limit holds whatever a worker does to its pipe, and the reason is that of its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from phasewise.records.verdict import Failure, Reason
from phasewise.workers import process as process_module
from phasewise.workers.arm import ArmProcesses, launch_function
from phasewise.workers.channel import Channel
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.forkserver import SERVER, start_fork_server
from phasewise.workers.isolated import run_isolated
from phasewise.workers.process import Process

LIMIT_S = 2.0
# what ends late ends at most so much later
SLACK_S = 2.0
HABITS = """
import os, subprocess, sys, time

def pipes():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
                yield int(name)
        except FileNotFoundError:
            pass

def close_all(given=None):
    # as libraries do that turn into a daemon
    os.closerange(3, 256)
    time.sleep(60)

def close_all_and_leave(given=None):
    os.closerange(3, 256)
    os._exit(3)

def leave_with_child(given=None):
    found = list(pipes())
    subprocess.Popen(["sleep", "60"], pass_fds=found, start_new_session=True)
    os._exit(3)

def answer_half(given=None):
    for fd in pipes():
        try:
            os.write(fd, b'{"answer": ')
        except OSError:
            pass
    time.sleep(60)
"""


@pytest.fixture
def habits(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "habits.py").write_text(HABITS)
    yield tmp_path
    for left in psutil.process_iter(["cmdline"]):
        if left.info["cmdline"] == ["sleep", "60"]:
            left.kill()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@pytest.mark.parametrize(
    ("habit", "reason", "words"),
    [
        ("close_all", Reason.TIMEOUT, "close_all was not done after 2 s"),
        ("answer_half", Reason.TIMEOUT, "answer_half was not done after 2 s"),
        ("close_all_and_leave", Reason.CRASH, "exit status 3"),
        ("leave_with_child", Reason.CRASH, "exit status 3"),
    ],
)
def test_a_call_ends_at_its_limit(habits: Path, habit: str, reason: Reason, words: str) -> None:
    with within(LIMIT_S + SLACK_S):
        failure = run_isolated(f"{habits}/habits.py:{habit}", None, folder=habits, timeout_s=LIMIT_S)
    assert failure == Failure(reason=reason, message=words)


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("close_all", "close_all was not done after 5 s"),
        ("answer_half", "answer_half was not done after 5 s"),
        ("leave_with_child", "exit status 3"),
    ],
)
def test_what_is_asked_of_a_program_that_is_open_ends_at_its_limit(habits: Path, habit: str, words: str) -> None:
    # forked, so that no import counts
    arm = ArmProcesses(replace(launch_function("time:time", timeout_s=5.0), fresh=False))
    arm.open()
    with within(5.0 + SLACK_S), pytest.raises(ProcessFailed, match=words):
        arm.apply(f"{habits}/habits.py:{habit}", dict)
    assert not arm.is_alive()


def test_a_message_that_comes_in_drops_has_one_limit() -> None:
    there, here = os.pipe()
    done = threading.Event()

    def drip() -> None:
        while not done.wait(0.1):
            os.write(here, b" ")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        with within(1.5), pytest.raises(TimeoutError):
            Channel(there, here).receive(0.5)
    finally:
        done.set()
        dripping.join()


def test_a_server_that_stands_still_holds_up_nobody(habits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "FAREWELL_S", 0.5)
    monkeypatch.setenv(SERVER, "")
    until = start_fork_server()
    worker = Process(environment={}, folder=habits)
    server = psutil.Process(worker.pid).parent()
    assert server is not None and server.pid != os.getpid()
    worker.send("call", target=f"{habits}/habits.py:close_all", payload=None, memory_bytes=None)
    server.send_signal(signal.SIGSTOP)
    try:
        with within(SLACK_S):
            worker.kill()
    finally:
        server.send_signal(signal.SIGCONT)
        os.close(until)
