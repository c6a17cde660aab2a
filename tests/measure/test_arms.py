"""Which arms a variant is measured beside, and when it is not measured."""

from __future__ import annotations

from typing import Any

import pytest

from phasewise.measure.arms import choose_arms, fit_at_once, refuse
from phasewise.records.measure import Arm, CaseMeasurement, Measurement, Round, Sample
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.records.verdict import Failure, Reason

CASE = "only"


def plan(
    variant: str, *ancestors: str, kind: Kind = Kind.PHASE, case: dict[str, Any] | None = None, **fields: Any
) -> VariantPlan:
    planned = PlannedCase(
        case=CASE, shape={}, parent=ancestors[0] if ancestors else None, ancestors=ancestors, **(case or {})
    )
    return VariantPlan(
        protocol=1, workload="w", source="s", run="r", size="tiny", device="cpu", variant=variant, kind=kind,
        cases=(planned,), tier="strict", allowance=Allowance(rtol=0, atol=0), budget=Budget(), lock="", sources="", **fields,
    )  # fmt: skip


def gate(
    variant: str, outcome: Outcome = Outcome.PASS, failure: Failure | None = None, peak: int | None = None
) -> Validation:
    case = CaseValidation(case=CASE, outcome=outcome, message="why", failure=failure, peak_memory_bytes=peak)
    return Validation(
        workload="w", run="r", variant=variant, plan="", machine="", commit="", tier="strict", cases=(case,)
    )


BASELINE = plan("00-baseline", kind=Kind.BASELINE)
FIRST = plan("01-first", "00-baseline")
SECOND = plan("02-second", "01-first", "00-baseline")
PLANS = {item.variant: item for item in (BASELINE, FIRST, SECOND)}
GREEN = {name: gate(name) for name in PLANS}


def names(
    item: VariantPlan, gates: dict[str, Validation], measured: dict[str, Measurement] | None = None
) -> list[tuple[str, str]]:
    plans = {**PLANS, item.variant: item}
    return [(arm.arm, arm.plan.variant) for arm in choose_arms(item, item.cases[0], plans, gates, measured or {})]


def test_a_phase_runs_beside_its_parent_and_the_baseline() -> None:
    assert names(SECOND, GREEN) == [("baseline", "00-baseline"), ("parent", "01-first"), ("variant", "02-second")]


def test_a_parent_that_is_the_baseline_is_one_arm_that_is_never_spared() -> None:
    assert names(FIRST, GREEN) == [("parent", "00-baseline"), ("variant", "01-first")]
    assert not any(arm.spare_if_slow for arm in choose_arms(FIRST, FIRST.cases[0], PLANS, GREEN, {}))


def test_the_baseline_runs_alone() -> None:
    assert names(BASELINE, GREEN) == [("variant", "00-baseline")]


def test_the_parent_is_the_nearest_ancestor_with_a_green_gate() -> None:
    red = {**GREEN, "01-first": gate("01-first", Outcome.FAIL)}
    assert names(SECOND, red) == [("parent", "00-baseline"), ("variant", "02-second")]


def test_a_variant_without_a_valid_ancestor_runs_alone() -> None:
    dead = Failure(reason=Reason.OUT_OF_MEMORY, message="oom")
    gates = {"01-first": gate("01-first"), "00-baseline": gate("00-baseline", Outcome.FAIL, dead)}
    assert names(FIRST, gates) == [("variant", "01-first")]


def test_a_baseline_that_is_measured_at_smaller_shapes_is_no_arm() -> None:
    small = plan("00-baseline", kind=Kind.BASELINE, case={"baseline_at": ({"n": 1}, {"n": 2})})
    chosen = choose_arms(FIRST, FIRST.cases[0], {**PLANS, "00-baseline": small}, GREEN, {})
    assert [arm.arm for arm in chosen] == ["variant"]


def test_a_control_is_its_parent_twice_and_judged_by_its_gate() -> None:
    control = plan("aa", "02-second", "01-first", "00-baseline", kind=Kind.CONTROL)
    assert names(control, GREEN) == [("parent", "02-second"), ("variant", "aa")]
    assert refuse(control, control.cases[0], GREEN, {}) is None
    red = refuse(control, control.cases[0], {"02-second": gate("02-second", Outcome.FAIL)}, {})
    assert red is not None and red.reason is Reason.RED_GATE


def test_a_peer_stands_against_ours_even_where_its_problem_differs() -> None:
    peer = plan("peer-jax", "02-second", "01-first", "00-baseline", kind=Kind.PEER, peer="jax")
    assert names(peer, GREEN) == [("parent", "02-second"), ("variant", "peer-jax")]
    assert refuse(peer, peer.cases[0], {"peer-jax": gate("peer-jax", Outcome.SKIPPED)}, {}) is None


def test_no_speed_is_reported_on_a_red_gate_a_skip_or_no_gate() -> None:
    def reason(gates: dict[str, Validation], item: VariantPlan = FIRST) -> Reason:
        refused = refuse(item, item.cases[0], gates, {})
        assert refused is not None
        return refused.reason

    assert refuse(FIRST, FIRST.cases[0], {"01-first": gate("01-first", Outcome.FALLBACK)}, {}) is None
    assert reason({"01-first": gate("01-first", Outcome.FAIL)}) is Reason.RED_GATE
    assert reason({}) is Reason.NOT_MEASURED
    crash = Failure(reason=Reason.CRASH, message="boom")
    assert reason({"01-first": gate("01-first", Outcome.FAIL, crash)}) is Reason.CRASH
    assert reason(GREEN, plan("01-first", "00-baseline", untimed="needs an NVIDIA GPU")) is Reason.NEEDS


def measured(variant: str, *arms: tuple[str, str], step_s: float | None = None) -> Measurement:
    """A record of `arms`, of which the first was timed at `step_s`, or spared."""
    taken = [] if step_s is None else [Sample(arm=arms[0][0], steps=2, wall_s=2 * step_s)]
    case = CaseMeasurement(
        case=CASE,
        arms=tuple(Arm(arm=arm, variant=name, first_step_s=(1.0,)) for arm, name in arms),
        rounds=(Round(process_set=0, samples=tuple(taken), neighbour_load=0.0, neighbours=0),) if taken else (),
    )
    return Measurement(workload="w", run="r", variant=variant, plan="", machine="", commit="", cases=(case,))


@pytest.mark.parametrize(
    ("record", "started"),
    [
        (measured("01-first", ("parent", "00-baseline"), ("variant", "01-first"), step_s=2.0), False),
        (measured("01-first", ("parent", "00-baseline"), ("variant", "01-first"), step_s=0.5), True),
        # it had been spared there
        (measured("01-first", ("baseline", "00-baseline"), ("parent", "00-other"), ("variant", "01-first")), False),
        # nor was it started there
        (measured("01-first", ("parent", "00-other"), ("variant", "01-first"), step_s=1e-3), False),
        # the parent ran without anything beside it
        (measured("01-first", ("variant", "01-first"), step_s=1e-3), True),
    ],
)
def test_a_baseline_that_is_on_record_as_slow_is_not_started_again(record: Measurement, started: bool) -> None:
    found = names(SECOND, GREEN, {"01-first": record})
    assert (("baseline", "00-baseline") in found) is started
    assert found[-2:] == [("parent", "01-first"), ("variant", "02-second")]


@pytest.mark.parametrize(("step_s", "refused"), [(None, True), (2.0, True), (0.5, False)])
def test_what_is_on_record_as_slow_is_not_repeated(step_s: float | None, refused: bool) -> None:
    control = plan("aa-baseline", "00-baseline", kind=Kind.CONTROL)
    record = measured("00-baseline", ("variant", "00-baseline"), step_s=step_s)
    failure = refuse(control, control.cases[0], GREEN, {"00-baseline": record})
    assert (failure is not None) is refused
    if failure is not None:
        assert failure.reason is Reason.OVER_BUDGET and "over 1 s" in failure.message


def test_processes_of_all_sets_fit_at_once_where_their_gates_say_so() -> None:
    def fits(item: VariantPlan, peaks: dict[str, int | None], memory: int) -> bool:
        gates = {name: gate(name, peak=peak) for name, peak in peaks.items()}
        plans = {**PLANS, item.variant: item}
        return fit_at_once(choose_arms(item, item.cases[0], plans, gates, {}), item.cases[0], gates, 3, memory)

    peaks: dict[str, int | None] = {"00-baseline": 1, "01-first": 2, "02-second": 4}
    # half of the memory is for them
    assert fits(SECOND, peaks, 43) and not fits(SECOND, peaks, 42)
    assert not fits(SECOND, {**peaks, "01-first": None}, 1000)
    # without a GPU
    assert not fits(SECOND, peaks, 0)
    # a control is its parent twice, whose gate is the only one
    control = plan("aa", "02-second", kind=Kind.CONTROL)
    assert fits(control, peaks, 49) and not fits(control, peaks, 48)
