"""How often guards step a program: no more than they need where steps are slow, and long enough where they are quick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from phasewise.bench.case import build_case
from phasewise.records.validate import Outcome
from phasewise.validate import guard_again
from phasewise.validate.guards import run_guards
from phasewise.validate.trial import GUARD_STEPS
from plans import make_plan
from trials import make_trial

HERE = Path(__file__).parent
# two watched, one more once their results are spoilt, two and two in memory that is used again, three for the hooks
BEFORE = 10


def count_steps(case_name, source, monkeypatch, later_s):
    monkeypatch.setattr(guard_again, "LATER_S", later_s)
    case = build_case(make_plan(source, HERE, cases=(case_name,)), case_name, HERE)
    step, calls = case.program.step, []

    def counted(placed):
        calls.append(placed)
        return step(placed)

    case = replace(case, program=replace(case.program, step=counted))
    trial = make_trial(case, GUARD_STEPS)
    calls.clear()
    guards = run_guards(trial)
    assert {guard.outcome for guard in guards} == {Outcome.PASS}, guards
    return len(calls)


@pytest.mark.parametrize("case, source", [("train-step", "honest_training.py"), ("product", "gated.py")])
def test_a_slow_program_is_stepped_little_and_a_quick_one_long(case, source, monkeypatch):
    slow = count_steps(case, source, monkeypatch, later_s=0.0)
    ring, later = 4, slow - BEFORE - GUARD_STEPS
    assert ring + 1 <= later <= 2 * ring
    quick = count_steps(case, source, monkeypatch, later_s=60.0)
    # the same number that the program can't know, on top of more
    assert quick - slow == guard_again.MORE_STEPS - ring
