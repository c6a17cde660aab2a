"""What was killed from outside is tried again, a few times: it says nothing of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.measure.compare import compare
from phasewise.measure.sampler import was_killed
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.failure import TRIES
from phasewise.workers.isolated import run_isolated

QUICK = Budget(min_rounds=4, max_rounds=4, min_sets=1, max_sets=1, block_s=0.001, seconds=10.0, timeout_s=60.0)
VICTIM = """
import os, signal, time
from pathlib import Path

HERE = Path(__file__).parent

def note():
    # a file for each process
    (HERE / f"call-{os.getpid()}").touch()
    return len(list(HERE.glob("call-*")))

def die_first(payload=None):
    if note() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"outcome": "pass"}

def die(payload=None):
    note()
    os.kill(os.getpid(), signal.SIGKILL)

steps = []

def late():
    sound()
    steps.append(0)
    if len(steps) == 40 and note() == 1:
        os.kill(os.getpid(), signal.SIGKILL)

def sound():
    # what takes no time takes long to warm up
    time.sleep(0.001)
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim.py").write_text(VICTIM)
    return tmp_path


def count_calls(folder: Path) -> int:
    return len(list(folder.glob("call-*")))


def test_a_call_that_was_killed_once_has_its_result(victim: Path) -> None:
    assert run_isolated(f"{victim}/victim.py:die_first", None, folder=victim) == {"outcome": "pass"}
    assert count_calls(victim) == 2


def test_a_call_that_is_killed_each_time_is_killed(victim: Path) -> None:
    failure = run_isolated(f"{victim}/victim.py:die", None, folder=victim)
    assert isinstance(failure, Failure) and failure.reason is Reason.KILLED
    assert count_calls(victim) == TRIES


def test_a_measurement_whose_judge_was_killed_says_nothing_either() -> None:
    for reason, again in ((Reason.KILLED, True), (Reason.CRASH, False)):
        refused = Failure(reason=reason, message="by somebody")
        assert was_killed(CaseMeasurement(case="a", arms=(), skipped=refused)) is again


def test_a_measurement_whose_worker_was_killed_is_made_again(victim: Path) -> None:
    found = compare(
        {"sound": f"{victim}/victim.py:sound", "late": f"{victim}/victim.py:late"}, budget=QUICK, device="cpu"
    )
    assert count_calls(victim) == 2
    assert [arm.failure for arm in found.measurement.arms] == [None, None]
    assert len(found.measurement.rounds) == 4 and found.ratios["late"] is not None
