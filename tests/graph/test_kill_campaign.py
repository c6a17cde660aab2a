"""SIGKILL at random moments, until the run is through: to the whole group, to the command alone, to a worker."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from graph.projects import LIMIT_S, REPOSITORY, RUN, lend, make_project, surroundings, unreadable
from phasewise.workers.forkserver import SERVER

TEMPLATE = REPOSITORY / "src/phasewise/cli/template.py"
KILLS = 20
# after which nothing of a killed run lives
GONE_S = 10.0
# from the start of a run to its death: from before it has planned to when it could be through
MOMENTS_S = (0.3, 15.0)


def start(project):
    return subprocess.Popen(
        [sys.executable, "-m", "phasewise", "run", "--quiet", "all"],
        cwd=project.folder,
        env=surroundings(project.folder),
        stdout=subprocess.DEVNULL,
        stderr=(project.folder.parent / "stderr").open("w"),
        start_new_session=True,
    )


def list_living(project):
    """Processes that work in the project's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(project.folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def list_workers(project):
    found = []
    for process in list_living(project):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if {"phasewise.bench.worker", "phasewise.bench.forkserver"} & set(words) and process.ppid() != 1:
            found.append(process)
    return found


def kill_group(project, running):
    """All that was started with the command, as the end of a session does it."""
    for process in [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]:
        try:
            if os.getpgid(process.pid) in (running.pid, process.pid):
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)
        except (ProcessLookupError, psutil.Error):
            continue
    return 1


def kill_command(project, running):
    running.kill()
    return 1


def kill_worker(project, running):
    """A worker, or where none is at work nothing; the run goes on."""
    # those that the server forked, and not the server
    forked = [process for process in list_workers(project) if process.cmdline() == process.parent().cmdline()]
    for process in forked[-1:]:
        process.kill()
    return len(forked[-1:])


def gates(project):
    return {
        path.parent.name: [case["outcome"] for case in project.read("sums", path.parent.name, "validate")["cases"]]
        for path in project.records("sums").glob("*/validate.json")
    }


def wait_until_gone(project):
    deadline = time.monotonic() + GONE_S
    while living := list_living(project):
        assert time.monotonic() < deadline, [process.cmdline() for process in living]
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kill", [kill_group, kill_command, kill_worker])
def test_the_same_command_ends_what_was_killed_at_random_moments(kill, tmp_path, lender, monkeypatch):
    monkeypatch.delenv(SERVER, raising=False)
    chance = random.Random(kill.__name__)
    made = itertools.count()
    project, killed = make(tmp_path, lender, next(made)), 0
    while killed < KILLS:
        running = start(project)
        try:
            running.wait(chance.uniform(*MOMENTS_S))
        except subprocess.TimeoutExpired:
            killed += kill(project, running)
            running.wait(LIMIT_S)
        check_remains(project)
        if running.returncode == 0:
            check_end(project)
            project = make(tmp_path, lender, next(made))
        else:
            assert running.returncode < 0, (project.folder.parent / "stderr").read_text()
    assert start(project).wait(LIMIT_S) == 0, (project.folder.parent / "stderr").read_text()
    check_end(project)


def make(folder, lender, number):
    project = make_project(folder / f"project-{number}", {"sums": TEMPLATE}, profilers=[])
    lend(lender, project)
    return project


def check_remains(project):
    """Nothing lives, and what is on record is whole."""
    wait_until_gone(project)
    assert not unreadable(project.folder.rglob("*.json"))


def check_end(project):
    """The run is through, and nothing tells of a kill."""
    check_remains(project)
    assert gates(project) == {"00-baseline": ["pass"], "01-vectorised": ["pass"], "02-fused": ["pass"]}
    statuses = {row["phase"]: row["status"] for row in project.summary("sums")["phases"]}
    assert "FAILED" not in statuses.values(), statuses
    assert not project.jobs()
    left = [path for path in (project.folder / "profiles" / "records").rglob("*") if path.name.startswith(".")]
    assert not left and (project.folder / "reports" / "sums" / RUN / "index.html").exists()
