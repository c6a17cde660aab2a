"""The headline and the control of a case, with real processes on tiny programs; and what they decide beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from measure.test_measure import child_of, gate
from phasewise.measure import measure_control, measure_headline
from phasewise.measure.control import count_sets
from phasewise.measure.headline import find_end
from phasewise.measure.progress import Silent
from phasewise.model.arms import take_pair
from phasewise.model.headline import Cast
from phasewise.model.ratios import paired_log_ratios, stop_headline, stop_own, stop_rules
from phasewise.records.measure import (
    Arm,
    CaseMeasurement,
    ControlMeasurement,
    HeadlineMeasurement,
    Inspection,
    Measurement,
    Round,
    Sample,
)
from phasewise.records.plan import Budget, Kind, VariantPlan
from phasewise.records.validate import Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import decode, digest, encode
from programs import plan_program, write_program

STACK = Cast(stack=("01-other", "00-baseline"))


@pytest.fixture
def plans() -> dict[str, VariantPlan]:
    baseline = msgspec.structs.replace(plan_program("good"), variant="00-baseline", kind=Kind.BASELINE)
    child = child_of(baseline, "other")
    return {plan.variant: plan for plan in (baseline, child)}


def record(
    variant: str,
    *,
    step_s: float = 1e-3,
    failure: Failure | None = None,
    seconds: float = 9.0,
    arms: tuple[Arm, ...] | None = None,
) -> Measurement:
    taken = tuple(
        Round(process_set=number, samples=(Sample(arm="variant", steps=10, wall_s=10 * step_s),)) for number in range(3)
    )
    arms = arms or (Arm(arm="variant", variant=variant, failure=failure),)
    case = CaseMeasurement(case="only", arms=arms, rounds=() if failure else taken, seconds=seconds)
    return Measurement(workload="w", run="r", variant=variant, plan="", machine="", commit="", cases=(case,))


def green(plans: dict[str, VariantPlan]) -> dict[str, Validation]:
    return {name: gate(name) for name in plans}


def control(folder: Path, plans: dict[str, VariantPlan], known: dict[str, Measurement]) -> ControlMeasurement:
    rest: dict[str, Any] = {"root": folder, "machine": "m", "commit": "c", "progress": Silent()}
    return measure_control(STACK, "only", plans, green(plans), known, others_s=30.0, **rest)


def test_baseline_and_end_are_timed_in_the_same_rounds(tmp_path: Path, plans: dict[str, VariantPlan]) -> None:
    write_program(tmp_path)
    rest: dict[str, Any] = {"root": tmp_path, "machine": "m", "commit": "c", "progress": Silent()}
    found = measure_headline(STACK, "only", plans, green(plans), {}, **rest)
    assert decode(encode(found), HeadlineMeasurement, "here") == found
    assert found.plans == {name: digest(plan) for name, plan in plans.items()}
    arms = {arm.arm: arm for arm in found.measured.arms}
    assert {name: arm.variant for name, arm in arms.items()} == {"baseline": "00-baseline", "variant": "01-other"}
    assert all(len(taken.samples) == 2 for taken in found.measured.rounds) and found.measured.rounds
    # what is timed is judged here, too; what the variant's own record tells is not told again
    assert all(arm.outputs_held and not arm.step_s and not arm.fresh_caches for arm in arms.values())


@pytest.mark.parametrize("parent", ["00-baseline", "01-more"])
def test_an_end_that_was_timed_beside_the_baseline_needs_no_more_rounds(
    tmp_path: Path, plans: dict[str, VariantPlan], parent: str
) -> None:
    write_program(tmp_path)
    own = record("01-other", arms=(Arm(arm="parent", variant=parent), Arm(arm="variant", variant="01-other")))
    rest: dict[str, Any] = {"root": tmp_path, "machine": "m", "commit": "c", "progress": Silent()}
    found = measure_headline(STACK, "only", plans, green(plans), {"01-other": own}, **rest)
    is_own = parent == "00-baseline"
    assert found.own_of == ("01-other" if is_own else "") and bool(found.measured.rounds) is not is_own


def test_a_slow_baseline_is_timed_beside_the_end_at_the_shapes_that_it_can_run(
    tmp_path: Path, plans: dict[str, VariantPlan]
) -> None:
    write_program(tmp_path)
    baseline = plans["00-baseline"]
    shapes = tuple({**baseline.cases[0].shape, "n": n} for n in (2, 3, 4))
    slow = msgspec.structs.replace(baseline, cases=(msgspec.structs.replace(baseline.cases[0], baseline_at=shapes),))
    rest: dict[str, Any] = {"root": tmp_path, "machine": "m", "commit": "c", "progress": Silent()}
    these = {**plans, "00-baseline": slow}
    found = measure_headline(STACK, "only", these, green(these), {}, **rest)
    assert decode(encode(found), HeadlineMeasurement, "here") == found
    # at the shape of the case there is nothing to compare it with
    assert not found.measured.rounds
    assert [one.shape for one in found.smaller] == list(shapes)
    for one in found.smaller:
        assert {arm.arm: arm.items for arm in one.measured.arms} == {
            name: float(one.shape["n"]) for name in ("baseline", "variant")
        }
        assert paired_log_ratios(one.measured, "baseline", "variant")


def test_where_no_two_may_be_timed_that_is_on_record(tmp_path: Path, plans: dict[str, VariantPlan]) -> None:
    rest: dict[str, Any] = {"root": tmp_path, "machine": "m", "commit": "c", "progress": Silent()}
    found = measure_headline(STACK, "only", plans, {"00-baseline": gate("00-baseline")}, {}, **rest)
    assert found.measured.skipped is not None and found.measured.skipped.reason is Reason.NO_PARENT


def test_a_control_is_the_end_of_the_stack_twice(tmp_path: Path, plans: dict[str, VariantPlan]) -> None:
    write_program(tmp_path)
    found = control(tmp_path, plans, {"01-other": record("01-other")})
    assert decode(encode(found), ControlMeasurement, "here") == found
    assert [(arm.arm, arm.variant) for arm in found.measured.arms] == [("parent", "01-other"), ("variant", "01-other")]
    assert len(paired_log_ratios(found.measured, "parent", "variant")) == 1


@pytest.mark.parametrize(
    ("known", "reason"),
    [({}, Reason.NOT_MEASURED), ({"01-other": record("01-other", step_s=2.0)}, Reason.OVER_BUDGET)],
)
def test_what_was_never_timed_or_is_slow_has_no_control(
    tmp_path: Path, plans: dict[str, VariantPlan], known: dict[str, Measurement], reason: Reason
) -> None:
    skipped = control(tmp_path, plans, known).measured.skipped
    assert skipped is not None and skipped.reason is reason


def test_a_control_takes_a_tenth_of_what_its_case_takes() -> None:
    (own,) = record("x", seconds=9.0).cases
    budget = Budget(min_sets=3, max_sets=6)
    assert [count_sets(own, others_s, budget) for others_s in (0.0, 30.0, 61.0, 90.0, 1e4)] == [1, 1, 2, 3, 3]
    # of those nine seconds six went into a start that a control does not make
    (arm,) = own.arms
    cold = msgspec.structs.replace(arm, fresh_caches=True, build_s=(2.0,), first_step_s=(4.0,))
    own = msgspec.structs.replace(own, arms=(cold,))
    assert [count_sets(own, others_s, budget) for others_s in (0.0, 11.0, 21.0, 31.0)] == [1, 1, 2, 3]


def test_the_stack_ends_in_the_last_that_holds(plans: dict[str, VariantPlan]) -> None:
    crash = Failure(reason=Reason.CRASH, message="boom")

    def end(known: dict[str, Measurement], gates: dict[str, Validation]) -> str | None:
        found = find_end(STACK, "only", plans, gates, known)
        return found and found.variant

    assert end({}, green(plans)) == "01-other"
    assert end({"01-other": record("01-other", failure=crash)}, green(plans)) == "00-baseline"
    assert end({}, {"00-baseline": gate("00-baseline")}) == "00-baseline"
    assert end({}, {}) is None


def test_five_sets_are_wanted_and_three_where_every_round_is_clear() -> None:
    stop = stop_headline(Budget())
    assert (stop.least_sets, stop.most_sets) == (5, 5) and [sets for _, sets in stop.clear] == [3]
    quick = stop_headline(Budget(min_sets=1, max_sets=1))
    assert (quick.least_sets, quick.most_sets, quick.clear) == (1, 1, ())
    # own rounds that are a headline are as many; in a single set they stop as those of any other variant
    assert stop_own(Budget()) == stop
    assert stop_own(Budget(min_sets=1, max_sets=1)) == stop_rules(Budget(min_sets=1, max_sets=1))


def test_a_pair_is_taken_out_of_a_headline_as_if_it_had_been_measured_alone() -> None:
    samples = {"baseline": 4.0, "variant": 1.0, "peer-x": 2.0}
    rounds = tuple(
        Round(process_set=number, samples=tuple(Sample(arm=arm, steps=1, wall_s=wall) for arm, wall in samples.items()))
        for number in range(2)
    )
    headline = CaseMeasurement(
        case="c",
        arms=tuple(Arm(arm=arm, variant=arm) for arm in samples),
        rounds=rounds,
        inspections=(Inspection(arm="peer-x", process_set=0, is_known=True, wrong="it is off"),),
    )
    pair = take_pair(headline, "variant", "peer-x")
    assert pair is not None
    assert [(arm.arm, arm.variant) for arm in pair.arms] == [("parent", "variant"), ("variant", "peer-x")]
    assert paired_log_ratios(pair, "parent", "variant") == [[pytest.approx(-0.6931, abs=1e-4)]] * 2
    assert [one.arm for one in pair.inspections] == ["variant"]
    assert take_pair(headline, "variant", "peer-y") is None
