"""Runs that are killed, and runs that meet: the same command goes on, and nothing half written is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from graph.projects import LIMIT_S, REPOSITORY, lend, make_project, snakemake, surroundings, unreadable
from phasewise.workers.forkserver import SERVER

TEMPLATE = REPOSITORY / "src/phasewise/cli/template.py"
FAULTY = Path(__file__).with_name("faulty.py")
RECORD_FILES = ("prepare.json", "validate.json", "measure.json", "profile.json", "analyse.json", "summary.json")
# a worker leaves when its pipe does
FAREWELL_S = 30
WORKERS = {"phasewise.bench.worker", "phasewise.bench.forkserver"}


@pytest.fixture(autouse=True)
def own_server(monkeypatch):
    """These runs start their fork server themselves, and it has to end with them."""
    monkeypatch.delenv(SERVER, raising=False)


@pytest.fixture
def project(tmp_path):
    """The workload of `phasewise init`, with one phase."""
    found = make_project(tmp_path / "project", {"sums": TEMPLATE}, profilers=[])
    found.configure(workloads={"sums": {"source": "sums.py", "phases": ["vectorised"]}})
    return found


def start(project, *arguments, **environment):
    """The graph in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *snakemake(project.folder), *arguments],
        cwd=project.folder,
        env=surroundings(project.folder, environment),
        stdout=(project.folder / "run.log").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_until(running, condition):
    """Poll until `condition()` holds while the run is alive."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert running.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill_when(project, condition):
    """Run the graph, and kill the whole group with SIGKILL once `condition()` holds."""
    running = start(project)
    wait_until(running, condition)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def workers_of(project):
    """Processes that still live and were started for this project: workers, and the server that some are forked from."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(project.folder) and WORKERS & set(process.cmdline()):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_for_workers(project):
    deadline = time.monotonic() + FAREWELL_S
    while workers_of(project):
        assert time.monotonic() < deadline, "a worker outlives the run that started it"
        time.sleep(0.1)


def test_a_killed_run_goes_on_where_it_was_and_loses_the_job_in_hand_at_most(project, lender):
    lend(lender, project)
    records = project.records("sums")
    measured = records / "01-vectorised" / "measure.json"
    log = project.folder / "logs/measure/sums/tiny-cpu/01-vectorised.log"
    moments = [
        # the first gate has just been written
        (records / "00-baseline" / "validate.json").exists,
        # a measurement is under way
        lambda: log.exists() and "opening" in log.read_text() and not measured.exists(),
        # everything is judged, and no page is there
        (records / "summary.json").exists,
    ]
    finished = {}
    for moment in moments:
        kill_when(project, moment)
        there = project.contents(*RECORD_FILES)
        assert not unreadable(project.folder.rglob("*.json"))
        # what an earlier run finished is as it was
        assert {name: there.get(name) for name in finished} == finished
        wait_for_workers(project)
        newest = max(there, key=lambda name: (project.folder / name).stat().st_mtime_ns)
        finished = {name: content for name, content in there.items() if name != newest}
    assert len(finished) >= 6
    assert not (project.folder / "reports" / "index.html").exists()
    project.run()
    now = project.contents(*RECORD_FILES)
    assert {name: now[name] for name in finished if "/summary" not in name} == {
        name: content for name, content in finished.items() if "/summary" not in name
    }
    assert project.summary("sums")["phases"][0]["validation"] == "pass"
    assert project.summary("sums")["phases"][0]["time_s"] > 0
    assert not project.jobs()


def test_a_step_that_hangs_dies_with_its_run(tmp_path, lender):
    project = make_project(tmp_path / "project", {"faulty": FAULTY}, profilers=[])
    lend(lender, project)
    project.configure(workloads={"faulty": {"source": "faulty.py", "phases": ["hangs"]}})
    running = start(project, "profiles/records/faulty/tiny-cpu/01-hangs/validate.json")
    wait_until(running, (project.folder / "hanging").exists)
    assert len(workers_of(project)) >= 2
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    wait_for_workers(project)


def test_a_second_run_in_the_same_folder_is_refused_and_the_first_goes_on(project):
    target = "profiles/records/sums/tiny-cpu/00-baseline/validate.json"
    first = start(project, target)
    wait_until(first, (project.folder / "logs/machine/cpu.log").exists)
    # it could end before the second has started
    os.killpg(first.pid, signal.SIGSTOP)
    second = project.run(target, check=False)
    os.killpg(first.pid, signal.SIGCONT)
    assert second.returncode != 0
    assert "another run is at work in this folder; wait until it ends, or stop it" in second.stdout + second.stderr
    assert "Traceback" not in second.stdout + second.stderr
    assert first.wait(LIMIT_S) == 0
    assert project.read("sums", "00-baseline", "validate")["cases"][0]["outcome"] == "pass"
    # the lock went with the run
    assert project.run(target).returncode == 0


@pytest.mark.slow
def test_two_projects_on_one_machine_take_turns_and_both_end_well(tmp_path):
    locks = {"PHASEWISE_LOCK_DIR": str(tmp_path)}
    projects = [make_project(tmp_path / name, {"sums": TEMPLATE}, profilers=[]) for name in ("one", "two")]
    target = "profiles/records/sums/tiny-cpu/00-baseline/measure.json"
    runs = [start(project, target, **locks) for project in projects]
    assert [run.wait(LIMIT_S) for run in runs] == [0, 0]
    logs = [
        (project.folder / "run.log").read_text() + (project.folder / "logs/machine/cpu.log").read_text()
        for project in projects
    ]
    assert any("others are at work on this machine; waiting for them" in log for log in logs)
    for project in projects:
        assert len(project.case("sums", "00-baseline", "measure", "rows")["rounds"]) == 3
