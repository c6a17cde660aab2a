"""Which arms a variant is measured beside, and when it is not measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasewise.measure.arms import Chosen, choose_arms, refuse
from phasewise.measure.cases import Wanted, fit_at_once, make_entrant
from phasewise.model.ratios import stop_rules
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import Launch, launch_case

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


@dataclass
class FakeJudge:
    """Starts processes on no batches."""

    def launch(self, arm: str, plan: VariantPlan) -> Launch:
        return launch_case(plan, CASE, Path())


BASELINE = plan("00-baseline", kind=Kind.BASELINE)
FIRST = plan("01-first", "00-baseline")
SECOND = plan("02-second", "01-first", "00-baseline")
PLANS = {item.variant: item for item in (BASELINE, FIRST, SECOND)}
GREEN = {name: gate(name) for name in PLANS}


def names(item: VariantPlan, gates: dict[str, Validation]) -> list[tuple[str, str]]:
    plans = {**PLANS, item.variant: item}
    return [(arm.arm, arm.plan.variant) for arm in choose_arms(item, item.cases[0], plans, gates, starts_cold=True)]


def test_a_phase_runs_beside_its_parent_alone() -> None:
    assert names(SECOND, GREEN) == [("parent", "01-first"), ("variant", "02-second")]
    assert names(FIRST, GREEN) == [("parent", "00-baseline"), ("variant", "01-first")]


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
    chosen = choose_arms(FIRST, FIRST.cases[0], {**PLANS, "00-baseline": small}, GREEN, starts_cold=True)
    assert [arm.arm for arm in chosen] == ["variant"]


def test_a_peer_stands_against_ours_even_where_its_problem_differs() -> None:
    peer = plan("peer-jax", "02-second", "01-first", "00-baseline", kind=Kind.PEER, peer="jax")
    assert names(peer, GREEN) == [("parent", "02-second"), ("variant", "peer-jax")]
    assert refuse(peer, CASE, {"peer-jax": gate("peer-jax", Outcome.SKIPPED)}) is None


def test_no_speed_is_reported_on_a_red_gate_a_skip_or_no_gate() -> None:
    def reason(gates: dict[str, Validation], item: VariantPlan = FIRST) -> Reason:
        refused = refuse(item, CASE, gates)
        assert refused is not None
        return refused.reason

    assert refuse(FIRST, CASE, {"01-first": gate("01-first", Outcome.FALLBACK)}) is None
    assert reason({"01-first": gate("01-first", Outcome.FAIL)}) is Reason.RED_GATE
    assert reason({}) is Reason.NOT_MEASURED
    crash = Failure(reason=Reason.CRASH, message="boom")
    assert reason({"01-first": gate("01-first", Outcome.FAIL, crash)}) is Reason.CRASH
    assert reason(GREEN, plan("01-first", "00-baseline", untimed="needs an NVIDIA GPU")) is Reason.NEEDS


def test_processes_of_all_sets_fit_at_once_where_their_gates_say_so() -> None:
    def fits(peaks: dict[str, int | None], memory: int) -> bool:
        gates = {name: gate(name, peak=peak) for name, peak in peaks.items()}
        wanted = Wanted(
            name="x", plan=SECOND, case=SECOND.cases[0], arms=choose_arms(SECOND, SECOND.cases[0], PLANS, gates, starts_cold=True),
            pairs=(), budget=SECOND.budget, stop=stop_rules(SECOND.budget),
        )  # fmt: skip
        return fit_at_once(wanted, gates, memory)

    peaks: dict[str, int | None] = {"00-baseline": 1, "01-first": 2, "02-second": 4}
    # half of the memory is for three sets of the two
    assert fits(peaks, 37) and not fits(peaks, 36)
    assert not fits({**peaks, "01-first": None}, 1000)
    # without a GPU
    assert not fits(peaks, 0)


def test_who_imports_the_compiler_may_have_it_already_but_for_the_build_that_is_told() -> None:
    def launches(*, has_compiler: bool = True, **budget: int) -> list[Launch]:
        chosen = Chosen(arm="variant", plan=FIRST, starts_cold=True)
        wanted = Wanted(
            name="w", plan=FIRST, case=FIRST.cases[0], arms=(chosen,), pairs=(), budget=Budget(**budget),
            stop=stop_rules(Budget()),
        )  # fmt: skip
        found = CaseValidation(case=CASE, outcome=Outcome.PASS, has_compiler=has_compiler)
        entrant = make_entrant(chosen, wanted, FakeJudge(), found, caches=Path("empty"))  # type: ignore[arg-type]
        return list(entrant.launches)

    told, *others = launches()
    # its caches are named in its environment, which keeps it from that server
    assert told.environment and all(launch.tooled and not launch.environment for launch in others)
    assert not any(launch.tooled for launch in launches(has_compiler=False))
    # of a single set nothing is told about how processes differ, and all come from the first server
    assert not any(launch.tooled for launch in launches(min_sets=1, max_sets=1))
