"""Jobs that share a GPU: each in a process of its own, with real locks."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from phasewise.cli import commands
from phasewise.cli.hold import hold_machine
from phasewise.run.lane import Crowded, Lane

# a job that does what its stdin says, and tells when it is done
JOB = """
import contextlib, os, sys
from phasewise.cli import hold

hold.name_gpus = lambda entries=None: {entry: f"GPU-{entry}" for entry in entries}
arguments = eval(sys.argv[1])
print("asks", flush=True)
with contextlib.ExitStack() as stack:
    lane = stack.enter_context(hold.hold_machine("h200", **arguments))
    print("in", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    inner = contextlib.ExitStack()
    for word in sys.stdin:
        if word.strip() == "alone":
            inner.enter_context(lane.alone())
        else:
            inner.close()
        print(word.strip(), flush=True)
"""
# long enough for what must not happen
A_WHILE_S = 0.5


class Job:
    def __init__(self, **arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, repr(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self._told = ""
        assert self.has_said("asks")

    def ask(self, word):
        self.process.stdin.write(f"{word}\n".encode())

    def has_said(self, words, within_s=10.0):
        """Whether it says `words` next."""
        until = time.monotonic() + within_s
        while not self._told.startswith(f"{words}\n"):
            self._told += (self.process.stdout.read(4096) or b"").decode()
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        self._told = self._told.removeprefix(f"{words}\n")
        return True

    def go_alone(self):
        self.ask("alone")
        assert self.has_said("alone")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts jobs of a run; those that are left are ended."""
    jobs = []

    def start(gpus="0", lanes=3, **arguments):
        monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
        monkeypatch.setenv("PHASEWISE_GPUS", gpus)
        monkeypatch.setenv("PHASEWISE_LANES", str(lanes))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus.split(",")[0])
        jobs.append(Job(**arguments))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def test_two_lanes_build_at_once_and_nobody_is_at_work_while_one_is_alone(start):
    one, two = (start(in_lane=True) for _ in range(2))
    assert one.has_said("in 0") and two.has_said("in 0")
    two.ask("alone")
    # the other builds
    assert not two.has_said("alone", A_WHILE_S)
    one.end()
    assert two.has_said("alone")
    others = [start(in_lane=True), start(shared=True)]
    assert not any(other.has_said("in 0", A_WHILE_S) for other in others)
    two.ask("leave")
    assert two.has_said("leave") and all(other.has_said("in 0") for other in others)


def test_there_are_so_many_lanes_and_a_killed_job_frees_its_own(start):
    jobs = [start(in_lane=True) for _ in range(3)]
    assert all(job.has_said("in 0") for job in jobs)
    # gates take none
    assert start(shared=True).has_said("in 0")
    late = start(in_lane=True)
    assert not late.has_said("in 0", A_WHILE_S)
    jobs[1].kill()
    assert late.has_said("in 0")
    jobs[0].ask("alone")
    jobs[0].kill()
    jobs[2].kill()


def test_a_job_that_is_killed_while_it_is_alone_lets_others_go_on(start):
    one, two = (start(in_lane=True) for _ in range(2))
    assert one.has_said("in 0") and two.has_said("in 0")
    one.ask("alone")
    two.ask("alone")
    time.sleep(A_WHILE_S)
    # one of them is
    for job, other in ((one, two), (two, one)):
        if job.has_said("alone", 0.1):
            job.kill()
            assert other.has_said("alone")
            return
    raise AssertionError("two that want to be alone wait for each other")


def test_the_first_lane_of_each_gpu_is_taken_before_a_second(start):
    jobs = []
    for gpu in "0101":
        jobs.append(start(gpus="0,1", in_lane=True))
        assert jobs[-1].has_said(f"in {gpu}")


def test_who_wants_to_be_alone_is_not_starved_by_those_who_come_later(start):
    first = start(in_lane=True)
    gate = start(shared=True)
    assert first.has_said("in 0") and gate.has_said("in 0")
    first.ask("alone")
    assert not first.has_said("alone", A_WHILE_S)
    # a stream of gates, each before the last one ends
    stream = [start(shared=True) for _ in range(3)]
    assert not any(job.has_said("in 0", A_WHILE_S) for job in stream)
    gate.end()
    assert first.has_said("alone")
    first.ask("leave")
    # nor do they starve
    assert all(job.has_said("in 0") for job in stream)


def test_gates_go_where_nothing_is_timed(start):
    one = start(gpus="0,1", in_lane=True)
    assert one.has_said("in 0")
    one.go_alone()
    for _ in range(3):
        assert start(gpus="0,1", shared=True).has_said("in 1")


def test_two_jobs_of_several_gpus_do_not_block_each_other(start):
    jobs = [start(gpus="0,1", in_lane=True, ranks=ranks) for ranks in (2, 2, 1)]
    assert jobs[0].has_said("in 0,1") and jobs[1].has_said("in 0,1")
    for _, job in itertools.product(range(20), jobs):
        job.ask("alone")
        job.ask("leave")
    for job in jobs:
        # it goes when its words are done
        job.process.stdin.close()
    for job in jobs:
        assert job.process.wait(60) == 0


def test_whole_waits_for_all_lanes_and_those_who_come_later_wait_for_it(start):
    jobs = [start(in_lane=True) for _ in range(2)]
    assert all(job.has_said("in 0") for job in jobs)
    whole = start()
    assert not whole.has_said("in 0", A_WHILE_S)
    # there is a lane, and it is kept for the one that wants all
    late = start(in_lane=True)
    assert not late.has_said("in 0", A_WHILE_S)
    jobs[0].end()
    assert not whole.has_said("in 0", A_WHILE_S)
    jobs[1].end()
    assert whole.has_said("in 0")
    gate = start(shared=True)
    assert not late.has_said("in 0", A_WHILE_S) and not gate.has_said("in 0", 0.1)
    # it is alone already
    whole.go_alone()
    whole.end()
    assert late.has_said("in 0") and gate.has_said("in 0")


def test_two_that_want_a_whole_gpu_do_not_wait_for_each_other(start):
    job = start(in_lane=True)
    assert job.has_said("in 0")
    wholes = [start() for _ in range(2)]
    time.sleep(A_WHILE_S)
    job.end()
    first = next(whole for _ in range(100) for whole in wholes if whole.has_said("in 0", 0.1))
    first.end()
    wholes.remove(first)
    assert wholes[0].has_said("in 0")


def test_a_stream_of_jobs_that_time_ends(start):
    jobs = [start(gpus="0,1", in_lane=True, ranks=ranks) for ranks in (1, 1, 1, 2, 2)]
    wholes = [start(gpus="0,1", ranks=ranks) for ranks in (1, 2)]
    gates = [start(gpus="0,1", shared=True, ranks=ranks) for ranks in (1, 2, 2)]
    for job, _ in itertools.product(jobs, range(10)):
        job.ask("alone")
        job.ask("leave")
    for job in (*jobs, *wholes, *gates):
        job.process.stdin.close()
    for job in (*jobs, *wholes, *gates):
        assert job.process.wait(60) == 0


def test_one_lane_holds_its_gpu_as_before(start):
    one, two = (start(gpus="0,1", lanes=1, in_lane=True) for _ in range(2))
    said = [next(gpu for _ in range(100) for gpu in "01" if job.has_said(f"in {gpu}", 0.05)) for job in (one, two)]
    assert sorted(said) == ["0", "1"]
    late, gate = start(gpus="0,1", lanes=1, in_lane=True), start(gpus="0,1", lanes=1, shared=True)
    assert not late.has_said("in 0", A_WHILE_S) and not gate.has_said("in 0", 0.1)
    one.go_alone()
    one.ask("leave")
    assert one.has_said("leave")
    assert not late.has_said("in 0", A_WHILE_S)


def test_a_lane_has_the_cores_and_the_threads_of_its_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    for name, value in {"GPUS": "0,1", "LANES": "2"}.items():
        monkeypatch.setenv(f"PHASEWISE_{name}", value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setattr("phasewise.cli.hold.name_gpus", lambda entries: {entry: f"GPU-{entry}" for entry in entries})
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, wanted: None)
    with hold_machine("h200", in_lane=True) as lane:
        assert os.environ["OMP_NUM_THREADS"] == "4" and "MKL_NUM_THREADS" not in os.environ
        assert lane.share == 0.5 and not lane.is_whole
    with hold_machine("h200", shared=True) as lane:
        assert os.environ["OMP_NUM_THREADS"] == "2"
    with hold_machine("h200") as lane:
        assert lane.is_whole
    assert os.environ["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("peak", "runs_out", "asked"), [(1, False, [True]), (1, True, [True, False]), (40, False, [False])]
)
def test_what_may_not_fit_into_a_lane_or_did_not_is_measured_on_the_whole_gpu(
    tmp_path, monkeypatch, peak, runs_out, asked
):
    held = []

    @contextlib.contextmanager
    def hold(device, *, in_lane, ranks):
        held.append(in_lane)
        yield Lane(share=1 / 3) if in_lane else Lane()

    def measure(*known, lane, **rest):
        if runs_out and not lane.is_whole:
            raise Crowded
        return SimpleNamespace(cases=())

    planned = SimpleNamespace(ranks=1, budget=SimpleNamespace(seconds=1.0), cases=(), variant="01-a")
    known = {"load_run": SimpleNamespace(device="h200"), "load_variant": planned, "load_all": {}, "_load_measured": {}}
    known |= {"load_machine": SimpleNamespace(memory_bytes=30, kind="cuda", identity="m"), "commit": "c"}
    for name, value in {**known, "restore": None, "must_fit": None, "write": None}.items():
        monkeypatch.setattr(f"phasewise.cli.timed.{name}", lambda *_, value=value: value)
    monkeypatch.setattr("phasewise.cli.timed.hold_machine", hold)
    monkeypatch.setattr("phasewise.measure.measure_variant", measure)
    monkeypatch.setattr("phasewise.measure.arms.fit_lane", lambda *known: peak < known[-1] / 2)
    monkeypatch.setenv("PHASEWISE_LANES", "3")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(commands, ["measure", "w", "full-h200", "01-a"])
    assert done.exit_code == 0, done.output
    assert held == asked
