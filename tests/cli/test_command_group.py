"""`phasewise run` and its graph end together: whoever is told or killed, nothing goes on by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from phasewise.cli.command_group import run_in_group

# as Snakemake does: a command that is told to end waits for its job, which runs below a shell
COMMAND = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
job = subprocess.Popen(["bash", "-c", "set -e; sleep 600; true"])
print(job.pid, flush=True)
job.wait()
sys.exit(7)
"""
WRAPPER = "import os, sys; from phasewise.cli.command_group import run_in_group; sys.exit(run_in_group(sys.argv[1:], os.environ) % 256)"


@pytest.fixture
def wrapper():
    """A process that runs COMMAND in a group, and all that is below it."""
    started = subprocess.Popen(
        [sys.executable, "-c", WRAPPER, sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    started.stdout.readline()
    below = []
    while not {"sleep", "sh"} <= {process.name() for process in below}:
        below = psutil.Process(started.pid).children(recursive=True)
        time.sleep(0.05)
    yield started, below
    for process in below:
        if process.is_running():
            process.kill()


def wait_for_all(below):
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_the_graph_ends_with_its_wrapper(wrapper, number):
    started, below = wrapper
    started.send_signal(number)
    code = started.wait(10)
    assert code != 0
    wait_for_all(below)


def test_jobs_end_with_a_graph_that_is_killed(wrapper):
    started, below = wrapper
    command = next(process for process in below if process.ppid() == started.pid and process.name() != "sh")
    command.kill()
    assert started.wait(10) == 256 - signal.SIGKILL
    wait_for_all(below)


def test_a_command_that_ends_gives_its_status_and_signals_are_as_before():
    before = signal.getsignal(signal.SIGINT)
    assert run_in_group([sys.executable, "-c", "raise SystemExit(5)"], os.environ) == 5
    assert run_in_group(["true"], os.environ) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_ignored_stays_ignored(tmp_path: Path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)"
        assert run_in_group([sys.executable, "-c", code], os.environ) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
