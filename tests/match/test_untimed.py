"""Candidates that do their work where no step is timed get no ratio, though all of them are right and patch the bench in their own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.match.plan import Effort
from phasewise.match.play import judge
from phasewise.records.exit_code import ExitCode
from phasewise.records.verdict import Reason, Status

LAYERS = Path(__file__).with_name("layers.py")
CHEATS = ("works_on_arrival", "works_at_delivery", "delays_handing", "seems_slow", "reads_ahead")


def play(candidate):
    effort = Effort(sets=2, rounds=6)
    (found,) = judge(f"{LAYERS}:base", f"{LAYERS}:{candidate}", device="cpu", effort=effort).judgements
    return found


@pytest.mark.slow
@pytest.mark.parametrize("candidate", CHEATS)
def test_work_that_is_done_before_or_after_the_timed_steps_gains_nothing(candidate):
    found = play(candidate)
    assert (found.exit_code, found.reason, found.ratio) == (ExitCode.CHEAT, Reason.REMEMBERS, None), found.detail


@pytest.mark.slow
def test_a_stack_of_layers_beside_itself_is_not_refused():
    found = play("base")
    assert found.status in (Status.SAME, Status.INCONCLUSIVE), found.detail
