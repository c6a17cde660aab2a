"""Promises of the user's document, each settled by what answers it."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_run import Phase, make_run

from phasewise.records.analyse import PromiseResult
from phasewise.records.plan import PlannedRisk, PlannedTarget
from phasewise.records.promise import Promise
from phasewise.records.validate import CheckResult, Outcome

ENERGY = CheckResult(check="energy-drift", outcome=Outcome.FAIL, message="0.3 eV in 10 ps, at most 0.1")
TOTAL = PlannedTarget(name="whole", metric="speedup", case="main", against="baseline", minimum=2.5, target=2.8)
GPUS = PlannedRisk(title="two GPUs are not there", probability="50 %", impact="none", by_hand="nobody looked")


def settle(*promises: Promise, **more: object) -> tuple[PromiseResult, ...]:
    phases = (Phase(name="a", speedup=2.0), Phase(name="b", speedup=1.5, checks=(ENERGY,)))
    run = make_run(*phases, targets=(TOTAL,), **more)  # type: ignore[arg-type]
    run.run_plan = msgspec.structs.replace(run.run_plan, promises=promises)
    return run.analyse()[0].promises


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(1.2, 1.5, "beaten"), (1.5, 2.5, "kept"), (2.0, 2.5, "undecided"), (2.5, 3.0, "broken")],
)
def test_a_phase_keeps_its_promise_if_the_whole_interval_reaches_the_low_end(
    low: float, high: float, outcome: str
) -> None:
    (found,) = settle(Promise(quote=f"{low} to {high} times as fast", promised=(low, high), phase="a"))
    assert (found.outcome, found.variant, found.case) == (outcome, "01-a", "main")
    assert found.measured is not None and found.measured.value == pytest.approx(2.0, rel=0.02)


def test_a_target_is_held_to_what_the_document_says() -> None:
    own, more, less = settle(
        Promise(quote="much faster", target="whole"),
        Promise(quote="4x", target="whole", promised=(4.0, 5.0)),
        Promise(quote="2x", target="whole", promised=(2.0, 2.0)),
    )
    # its own bounds are reached; they are not the document's, so nothing is beaten
    assert (own.outcome, more.outcome, less.outcome) == ("kept", "broken", "beaten")


def test_a_line_to_tick_is_kept_by_what_is_built_and_right_and_broken_by_a_check_that_failed() -> None:
    built, right, broken, silent = settle(
        Promise(quote="build a", phase="a"),
        Promise(quote="results agree", check="gate"),
        Promise(quote="energy is conserved", check="energy-drift"),
        Promise(quote="momentum is conserved", check="momentum"),
    )
    assert (built.outcome, right.outcome) == ("kept", "kept")
    assert (broken.outcome, broken.evidence) == ("broken", ENERGY.message)
    assert silent.outcome == "not measured" and "momentum" in silent.evidence


def test_what_nothing_answers_and_what_is_a_probability_promises_nothing() -> None:
    guess, risk = settle(
        Promise(quote="day 3", why="a plan of work"), Promise(quote="50 %", risk=GPUS.title), risks=(GPUS,)
    )
    assert (guess.outcome, guess.evidence) == ("no promise", "a plan of work")
    assert risk.outcome == "no promise" and GPUS.title in risk.evidence


def test_a_phase_that_is_not_in_this_run_is_not_measured() -> None:
    (found,) = settle(Promise(quote="3x", promised=(3.0, 3.0), phase="gone"))
    assert found.outcome == "not measured" and "gone" in found.evidence
