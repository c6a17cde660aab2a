"""Each status and each reason comes from the records that stand for it."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from synthetic_plan import CPU
from synthetic_run import BASELINE, GPU, Phase, cut_controls, make_run, rounds_of

from phasewise.analyse.families import Against, adjust
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.prepare import CaseWork
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Failure, Reason, Status
from phasewise.stats import estimate_ratio, p_value

OOM = Failure(reason=Reason.OUT_OF_MEMORY, message="tried to allocate 537 MB")
CRASH = Failure(reason=Reason.CRASH, message="ValueError: no")


@pytest.mark.parametrize(
    ("phase", "status", "reason"),
    [
        (Phase(name="x", speedup=1.5), Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR),
        (Phase(name="x", speedup=0.7), Status.SLOWER, Reason.INTERVAL_CLEARS_FLOOR),
        (Phase(name="x", speedup=1.0), Status.SAME, Reason.WITHIN_ONE_PERCENT),
        (Phase(name="x", speedup=1.03, process=0.05), Status.INCONCLUSIVE, Reason.PROCESS_SPREAD),
        (Phase(name="x", speedup=1.02, noise=0.2, process=0.0), Status.INCONCLUSIVE, Reason.FEW_ROUNDS),
        (Phase(name="x", speedup=1.5, dropped=0.5), Status.INCONCLUSIVE, Reason.THROTTLED),
        (Phase(name="x", speedup=1.5, dropped=1.0), Status.INCONCLUSIVE, Reason.THROTTLED),
        (Phase(name="x", speedup=1.02, neighbours=1), Status.INCONCLUSIVE, Reason.NEIGHBOUR),
        # two users of a device can halve a speed, not take four fifths of it
        (Phase(name="x", speedup=5.0, neighbours=1), Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR),
        (Phase(name="x", speedup=1.02, bimodal=0.05), Status.INCONCLUSIVE, Reason.BIMODAL),
        (Phase(name="x", speedup=1.05, has_clocks=True, clock_gain=1.05), Status.INCONCLUSIVE, Reason.CLOCK),
        (Phase(name="x", outcome=Outcome.FAIL), Status.INVALID, Reason.RED_GATE),
        (Phase(name="x", outcome=Outcome.FAIL, must="INVALID"), Status.INVALID, Reason.EXPECTED_INVALID),
        (Phase(name="x", must="INVALID"), Status.INVALID, Reason.ALARM_NOT_REFUSED),
        (Phase(name="x", must="INVALID", outcome=Outcome.FALLBACK), Status.SKIPPED, Reason.UNSUPPORTED),
        (Phase(name="x", outputs_held=False), Status.INVALID, Reason.RED_GATE),
        (Phase(name="x", gate_failure=CRASH), Status.FAILED, Reason.CRASH),
        (
            Phase(name="x", gate_failure=Failure(reason=Reason.UNSUPPORTED, message="no")),
            Status.SKIPPED,
            Reason.UNSUPPORTED,
        ),
        (Phase(name="x", failure=OOM), Status.FAILED, Reason.OUT_OF_MEMORY),
        (Phase(name="x", failure=CRASH), Status.FAILED, Reason.CRASH),
        (Phase(name="x", failure=Failure(reason=Reason.TIMEOUT, message="10 s")), Status.FAILED, Reason.TIMEOUT),
        (
            Phase(name="x", failure=Failure(reason=Reason.BAD_PROGRAM, message="no step")),
            Status.FAILED,
            Reason.BAD_PROGRAM,
        ),
        (Phase(name="x", parent_failure=OOM), Status.ENABLED, Reason.PARENT_CANNOT_RUN),
        (Phase(name="x", parent_failure=CRASH), Status.INCONCLUSIVE, Reason.NO_PARENT),
        (
            Phase(name="x", parent_failure=Failure(reason=Reason.TIMEOUT, message="10 s")),
            Status.INCONCLUSIVE,
            Reason.NO_PARENT,
        ),
        (Phase(name="x", has_parent_arm=False), Status.INCONCLUSIVE, Reason.NO_PARENT),
        (Phase(name="x", skip="needs 2 GPUs"), Status.SKIPPED, Reason.NEEDS),
        (Phase(name="x", untimed="needs CUDA"), Status.SKIPPED, Reason.NEEDS),
        (Phase(name="x", has_measurement=False), Status.SKIPPED, Reason.NOT_MEASURED),
        (Phase(name="x", has_validation=False), Status.SKIPPED, Reason.NOT_MEASURED),
        (Phase(name="x", outcome=Outcome.SKIPPED, message="why"), Status.SKIPPED, Reason.NOT_MEASURED),
        (Phase(name="x", cases=()), Status.SKIPPED, Reason.CASE_NOT_CHOSEN),
        (
            Phase(name="x", skipped=Failure(reason=Reason.OVER_BUDGET, message="8 min are spent")),
            Status.SKIPPED,
            Reason.OVER_BUDGET,
        ),
        (Phase(name="x", machine="another GPU"), Status.INCONCLUSIVE, Reason.OTHER_MACHINE),
    ],
)
def test_a_phase_gets_the_status_that_its_records_stand_for(phase: Phase, status: Status, reason: Reason) -> None:
    verdict = make_run(phase).verdict("x")
    assert (verdict.status, verdict.reason) == (status, reason), verdict


def test_the_baseline_is_the_baseline() -> None:
    assert make_run(Phase(name="x")).verdict(BASELINE).status is Status.BASELINE


def test_an_effect_under_the_floor_of_the_control_is_not_claimed() -> None:
    verdict = make_run(Phase(name="x", speedup=1.02), aa=1.03).verdict("x")
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, Reason.BELOW_FLOOR)
    assert verdict.numbers["floor"] > 0.02


def test_a_control_is_judged_with_all_the_controls_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def status_at(p: float) -> str | None:
        monkeypatch.setattr("phasewise.stats.chances.p_value", lambda ratio: p)
        control = make_run(Phase(name="x", speedup=1.2), aa=1.03).analyse()[0].cases[0].control
        return None if control is None else control.status

    # its interval leaves out 1; the run has two controls
    assert status_at(0.02) == "FASTER"
    assert status_at(0.03) == "INCONCLUSIVE"


def test_a_claim_that_is_lost_among_many_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Phase(name=f"n{i}", keep=False, process=0.0) for i in range(12)]
    run = make_run(Phase(name="x", speedup=1.2), *many)
    assert run.verdict("x").status is Status.FASTER
    monkeypatch.setattr("phasewise.stats.chances.p_value", lambda ratio: 0.01)
    verdict = run.verdict("x")
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, Reason.MULTIPLICITY)
    assert verdict.over_parent is not None and verdict.over_parent.low > 1.0


def test_a_comparison_is_corrected_within_its_case_and_kind() -> None:
    weak = estimate_ratio([[0.02, 0.022], [0.024, 0.026], [0.022, 0.024]])
    three = {(("main", f"x{i}"), Against.PARENT): weak for i in range(3)}
    p = p_value(weak)
    assert [chances.differs for chances in adjust(three).values()] == pytest.approx([3 * p] * 3)
    others = {(("other", "x0"), Against.PARENT): weak, (("main", "peer"), Against.PEER): weak}
    # families of one in a report of three; what they claim whole they leave to the three
    assert [chances.differs for chances in adjust(three | others).values()] == pytest.approx([3 * p] * 5)
    alike = estimate_ratio([[0.0, 0.01], [0.0, -0.01], [0.0, 0.01]])
    silent = dict.fromkeys(others, alike)
    assert adjust(three | silent)[("main", "x0"), Against.PARENT].differs == pytest.approx(9 * p)


def test_without_a_control_only_ten_per_cent_is_claimed() -> None:
    small = make_run(Phase(name="x", speedup=1.08), has_control=False).verdict("x")
    large = make_run(Phase(name="x", speedup=1.2), has_control=False).verdict("x")
    assert (small.status, small.reason) == (Status.INCONCLUSIVE, Reason.BELOW_FLOOR)
    assert "no A/A control to tell a noise limit: it is taken to be 10 %" in small.detail
    assert large.status is Status.FASTER


def test_a_control_of_one_set_with_nothing_to_learn_from_tells_no_limit() -> None:
    run = cut_controls(make_run(Phase(name="x", speedup=1.08), aa=1.2), 1)
    verdict, case = run.verdict("x"), run.analyse()[0].cases[0]
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, Reason.BELOW_FLOOR)
    assert (
        "its A/A control has one set of processes, which tells no noise limit: it is taken to be 10 %" in verdict.detail
    )
    assert verdict.numbers["floor"] == pytest.approx(0.1)
    assert case.control is not None and case.control.floor is None and case.control.ratio is not None


def test_a_control_of_one_set_learns_from_the_comparisons_of_its_run() -> None:
    phases = [Phase(name=f"x{number}", speedup=1.08) for number in range(8)]
    run = cut_controls(make_run(*phases), 1)
    case = run.analyse()[0].cases[0]
    assert case.control is not None and case.control.floor is not None and 0.0 < case.control.floor < 0.05
    # of three sets, with a margin for what the noise of their rounds adds
    assert all(run.verdict(phase.name).numbers["floor"] < 0.7 * case.control.floor for phase in phases)
    assert {run.verdict(phase.name).status for phase in phases} == {Status.FASTER}


def test_faster_than_the_measured_peak_is_invalid() -> None:
    work = CaseWork(case="main", items=1000.0, flops=0.0, bytes=4e9, working_set_bytes=4e9)
    run = make_run(Phase(name="x", speedup=2.0), work=work, step_s=1.5e-3)
    verdict = run.verdict("x")
    assert (verdict.status, verdict.reason) == (Status.INVALID, Reason.ABOVE_PEAK)
    assert verdict.over_parent is None and run.rows()["x"].time_s is None
    assert run.verdict(BASELINE).status is Status.BASELINE


def slow_parent(found: Measurement, times: float, alone_s: tuple[float, ...] = ()) -> Measurement:
    """As if something had slowed the parent while it was timed beside the variant."""
    [case] = found.cases
    rounds = tuple(
        replace(
            taken,
            samples=tuple(
                replace(one, wall_s=one.wall_s * times) if one.arm == "parent" else one for one in taken.samples
            ),
        )
        for taken in case.rounds
    )
    arms = tuple(replace(arm, alone_s=alone_s) if arm.arm == "parent" else arm for arm in case.arms)
    return replace(found, cases=(replace(case, rounds=rounds, arms=arms),))


@pytest.mark.parametrize(
    ("gain", "slowed", "alone", "expected"),
    [
        (1.0, 1.0, 1.0, Status.SAME),
        # as a host's own spells
        (1.0, 2.0, 2.0, Status.FASTER),
        # it was as slow before, and fast once it was alone
        (1.0, 2.0, 1.0, Status.INCONCLUSIVE),
        # three times as long as on its own record, and nothing is known of it alone
        (1.0, 3.0, None, Status.INCONCLUSIVE),
        # more than the parent was slowed by
        (2.0, 2.0, 1.0, Status.FASTER),
    ],
)
def test_a_parent_that_was_slowed_proves_no_gain(
    gain: float, slowed: float, alone: float | None, expected: Status
) -> None:
    run = make_run(Phase(name="x", speedup=gain), step_s=1e-3)
    run.measurements["01-x"] = slow_parent(
        run.measurements["01-x"], slowed, () if alone is None else (alone * 1e-3,) * 3
    )
    verdict = run.verdict("x")
    assert verdict.status is expected
    if expected is Status.INCONCLUSIVE:
        assert verdict.reason is Reason.PARENT_STRAYED
        since = "on its own record" if alone is None else "after the variant had ended"
        assert verdict.detail.startswith(f"{BASELINE} took ") and verdict.detail.endswith(
            f"as long beside it as {since}"
        )


@pytest.mark.parametrize("machine", [GPU, CPU], ids=["counted", "cpu"])
def test_above_a_peak_that_proves_nothing_is_a_question(machine: Machine) -> None:
    work = CaseWork(case="main", items=1000.0, flops=0.0, bytes=4e9, working_set_bytes=4e9, counted=machine is GPU)
    run = make_run(Phase(name="x", speedup=2.0), work=work, step_s=1.5e-3, machine=machine)
    assert run.verdict("x").status is Status.FASTER
    analysis, _ = run.analyse()
    [doubt] = [alarm for alarm in analysis.alarms if alarm.startswith("01-x") and "at the measured peak" in alarm]
    assert doubt.startswith("01-x in main: a step takes 0.00075 s, and its work at least ")
    assert doubt.endswith("is its work counted rightly, and done?")


def test_a_ratio_to_an_invalid_parent_is_not_told() -> None:
    run = make_run(Phase(name="first", outputs_held=False), Phase(name="second", speedup=2.0))
    verdict = run.verdict("second")
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, Reason.NO_PARENT)
    assert "01-first" in verdict.detail


def test_a_red_baseline_leaves_no_speed_up_over_it() -> None:
    run = make_run(Phase(name="x", speedup=2.0), baseline=Phase(name="baseline", outcome=Outcome.FAIL))
    assert run.verdict(BASELINE).status is Status.INVALID
    assert run.verdict("x").over_baseline is None


def test_the_interval_holds_the_truth_and_the_numbers_it_came_from() -> None:
    verdict = make_run(Phase(name="x", speedup=1.5)).verdict("x")
    assert verdict.over_parent is not None
    assert verdict.over_parent.low <= 1.5 <= verdict.over_parent.high
    assert verdict.numbers["rounds"] == 36
    assert verdict.numbers["sets"] == 3
    assert verdict.numbers["p"] <= verdict.numbers["p_adjusted"]


def test_ratios_are_of_time_per_item() -> None:
    # twice the items in the same time
    phase = Phase(name="x", speedup=2.0, items=2000.0)
    verdict = make_run(phase).verdict("x")
    assert verdict.over_parent is not None and verdict.over_parent.estimate == pytest.approx(2.0, rel=0.01)
    assert make_run(phase).rows()["x"].time_s.estimate == pytest.approx(1e-3, rel=0.01)  # type: ignore[union-attr]


def test_many_comparisons_need_more_than_one_alone() -> None:
    alone = make_run(Phase(name="x", speedup=1.004, process=0.0), seed=3).verdict("x")
    many = [Phase(name=f"n{i}", keep=False, process=0.0) for i in range(12)]
    among = make_run(Phase(name="x", speedup=1.004, process=0.0), *many, seed=3).verdict("x")
    assert alone.numbers["p_adjusted"] == alone.numbers["p"]
    assert among.numbers["p_adjusted"] >= among.numbers["p"] * 2


def test_one_round_gives_no_interval_and_no_claim() -> None:
    run = make_run(Phase(name="x", speedup=1.5))
    case = run.measurements["01-x"].cases[0]
    kept = replace(case, rounds=case.rounds[:1])
    run.measurements["01-x"] = replace(run.measurements["01-x"], cases=(kept,))
    verdict = run.verdict("x")
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.over_parent is None


def test_the_gates_of_other_machines_do_not_count_as_measured_here() -> None:
    run = make_run(
        Phase(name="first", speedup=2.0, machine="another GPU"), Phase(name="second", speedup=1.5), slow_baseline=True
    )
    # the link through the first phase was measured elsewhere
    assert run.verdict("second").status is Status.FASTER
    assert run.verdict("second").over_baseline is None


def test_an_aa_run_raises_no_alarm_in_most_seeds() -> None:
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in rng.integers(0, 10_000, 20):
        status = make_run(Phase(name="x", speedup=1.0), seed=int(seed)).verdict("x").status
        alarms += status in (Status.FASTER, Status.SLOWER)
    assert alarms <= 1


def test_rounds_without_the_parent_say_nothing() -> None:
    run = make_run(Phase(name="x", speedup=2.0))
    alone = rounds_of(np.random.default_rng(0), {"variant": 1e-3}, Phase(name="x"))
    case = replace(run.measurements["01-x"].cases[0], rounds=alone, stopped="budget")
    run.measurements["01-x"] = replace(run.measurements["01-x"], cases=(case,))
    verdict = run.verdict("x")
    assert (verdict.status, verdict.reason, verdict.detail) == (Status.INCONCLUSIVE, Reason.FEW_ROUNDS, "budget")


def test_a_run_without_any_record_is_all_holes() -> None:
    run = make_run(Phase(name="x"))
    for records in (run.measurements, run.validations, run.plans):
        records.clear()
    run.prepared = None
    analysis, ledger = run.analyse()
    assert {row.verdict.status for row in analysis.cases[0].rows} == {Status.SKIPPED}
    assert any("no validation" in alarm for alarm in analysis.alarms)
    assert ledger.scores == ()
    assert GPU.identity in analysis.machines
