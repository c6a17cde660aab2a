"""What a report begins with comes from the headline's own rounds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from synthetic_run import Peer, Phase, Run, make_run

from phasewise.analyse import analyse_run
from phasewise.analyse.compare import estimate_all
from phasewise.records.analyse import CaseResult
from phasewise.records.measure import (
    Arm,
    CaseMeasurement,
    ControlMeasurement,
    HeadlineMeasurement,
    Inspection,
    Round,
    Sample,
)
from phasewise.records.plan import Kind, PlannedTarget
from phasewise.records.verdict import Level, Status
from phasewise.run import Run as Records

# seconds of 1000 items, which the variants' own rounds do not show
HEADLINE = {"baseline": 8e-3, "variant": 1e-3}
NAMES = {"baseline": "00-baseline", "variant": "02-b"}
WOBBLE = (0.996, 1.002, 1.0, 0.999, 1.004, 1.001)


def time_together(times: dict[str, float], *, sets: int = 3, rounds: int = 6, **fields: Any) -> CaseMeasurement:
    arms = tuple(Arm(arm=arm, variant=NAMES.get(arm, arm), items=1000.0) for arm in times)
    taken = tuple(
        Round(
            process_set=number,
            samples=tuple(
                Sample(arm=arm, steps=10, wall_s=10 * step_s * WOBBLE[(place + at * 2 + number) % 6])
                for at, (arm, step_s) in enumerate(times.items())
            ),
            neighbour_load=0.0,
        )
        for number in range(sets)
        for place in range(rounds)
    )
    return CaseMeasurement(case="main", arms=arms, rounds=taken, **fields)


def judge(
    run: Run, measured: CaseMeasurement, machine: str | None = None, kind: Any = HeadlineMeasurement
) -> CaseResult:
    records: Records = run.records()
    where = run.machine.identity if machine is None else machine
    records.add(
        kind(workload="toy", run="full-h200", case="main", plans={}, machine=where, commit="", measured=measured)
    )
    return analyse_run(records)[0].cases[0]


def two_phases(**fields: Any) -> Run:
    return make_run(Phase(name="a", speedup=2.0), Phase(name="b", speedup=2.0), Phase(name="c", keep=False), **fields)


def test_the_speed_up_and_both_times_come_from_the_same_rounds() -> None:
    case = judge(two_phases(), time_together(HEADLINE))
    rows = {row.variant: row for row in case.rows}
    baseline, end = rows["00-baseline"].time_s, rows["02-b"].time_s
    assert case.stack_speedup is not None and case.stack_speedup.estimate == pytest.approx(8.0, rel=0.01)
    assert baseline is not None and end is not None
    assert baseline.estimate / end.estimate == pytest.approx(case.stack_speedup.estimate, rel=0.01)
    assert not case.stack_chained and case.stack_status is Status.FASTER


def test_where_there_is_a_headline_nothing_is_chained() -> None:
    run = two_phases(slow_baseline=True)
    without = {row.variant: row.verdict for row in run.analyse()[0].cases[0].rows}
    assert without["02-b"].chained and run.analyse()[0].cases[0].stack_chained
    rows = {row.variant: row.verdict for row in judge(run, time_together(HEADLINE)).rows}
    assert not any(verdict.chained for verdict in rows.values())
    # beside the baseline in its own rounds, in the headline, and in neither
    assert rows["01-a"].over_baseline is not None and rows["02-b"].over_baseline is not None
    assert rows["03-c"].over_baseline is None and rows["03-c"].over_parent is not None


def test_a_headline_that_is_the_end_s_own_rounds_is_read_there_and_counts_once() -> None:
    run = make_run(Phase(name="a", speedup=2.0), Phase(name="b", keep=False))
    records = run.records()
    records.add(
        HeadlineMeasurement(
            workload="toy",
            run="full-h200",
            case="main",
            plans={},
            machine=run.machine.identity,
            commit="",
            own_of="01-a",
            measured=CaseMeasurement(case="main", arms=()),
        )
    )
    headline, own = records.headline("main"), records["01-a"].measured("main")
    assert headline is not None and own is not None and headline.rounds
    assert {arm.arm: arm.variant for arm in headline.arms} == {"baseline": "00-baseline", "variant": "01-a"}
    estimates = estimate_all(records)
    assert estimates.headlines == {"main"} and ("main", "01-a") not in estimates.over_baseline
    case = analyse_run(records)[0].cases[0]
    rows = {row.variant: row for row in case.rows}
    assert case.stack_speedup == rows["01-a"].verdict.over_parent == rows["01-a"].verdict.over_baseline is not None
    assert not case.stack_chained
    # both times are those of the same rounds
    baseline, end = rows["00-baseline"].time_s, rows["01-a"].time_s
    assert baseline is not None and end is not None
    assert baseline.estimate / end.estimate == pytest.approx(case.stack_speedup.estimate, rel=0.01)
    # what has no headline says so, or chains, as where the headline has rounds of its own
    alone = run.analyse()[0].cases[0]
    assert alone.stack_speedup is not None and alone.stack_speedup.estimate == pytest.approx(2.0, rel=0.02)


def test_a_part_that_a_target_holds_against_the_baseline_is_read_from_the_headline() -> None:
    target = PlannedTarget(
        name="week", metric="speedup", case="main", against="baseline", part="week", minimum=2.0, target=3.0
    )
    run = make_run(
        Phase(name="a", speedup=2.0, part="week"), Phase(name="b", speedup=2.0), parts=("week",), targets=(target,)
    )
    records = run.records()
    measured = time_together({**HEADLINE, "01-a": 2e-3})
    machine = run.machine.identity
    records.add(
        HeadlineMeasurement(
            workload="toy", run="full-h200", case="main", plans={}, machine=machine, commit="", measured=measured
        )
    )
    analysis, _ = analyse_run(records)
    assert analysis.targets[0].value == pytest.approx(4.0, rel=0.01) and analysis.targets[0].level is Level.TARGET


def test_peers_are_compared_in_the_headline_and_the_strongest_is_seen_there() -> None:
    run = two_phases(peers=(Peer(name="x", slower=9.0), Peer(name="y", slower=9.0)))
    for name in ("peer-x", "peer-y"):
        del run.measurements[name]
    case = judge(run, time_together({**HEADLINE, "peer-x": 3e-3, "peer-y": 2e-3}))
    assert {peer.name: round(peer.ratio.estimate, 1) for peer in case.peers if peer.ratio} == {"x": 3.0, "y": 2.0}
    assert case.strongest_peer == "y" and {peer.variant for peer in case.peers} == {"02-b"}


def test_one_block_of_a_slow_baseline_is_a_bound() -> None:
    measured = time_together(HEADLINE, sets=1)
    # the baseline was timed once
    first, *others = measured.rounds
    rest = [replace(taken, samples=taken.samples[1:]) for taken in others]
    slow = [
        replace(sample, wall_s=1000 * sample.wall_s) if sample.arm == "baseline" else sample for sample in first.samples
    ]
    case = judge(two_phases(), replace(measured, rounds=(replace(first, samples=tuple(slow)), *rest)))
    assert case.stack_speedup is None and case.stack_status is Status.FASTER
    assert case.stack_at_least == pytest.approx(8000 / 3, rel=0.02)


def test_what_was_wrong_in_the_headline_is_wrong() -> None:
    wrong = Inspection(arm="variant", process_set=0, is_known=True, wrong="output 'y' is off")
    case = judge(two_phases(), time_together(HEADLINE, inspections=(wrong,)))
    verdicts = {row.variant: row.verdict for row in case.rows}
    assert verdicts["02-b"].status is Status.INVALID and verdicts["01-a"].status is not Status.INVALID
    assert case.stack == "01-a"


def test_the_headline_of_another_machine_is_none() -> None:
    case = judge(two_phases(), time_together(HEADLINE), machine="another")
    assert case.stack_speedup is not None and case.stack_speedup.estimate == pytest.approx(4.0, rel=0.02)


def test_a_control_sets_the_limit_as_the_variants_of_older_records_did() -> None:
    run = two_phases(has_control=False)
    measured = time_together({"parent": 1e-3, "variant": 1e-3})
    control = replace(measured, arms=tuple(replace(arm, variant="02-b") for arm in measured.arms))
    case = judge(run, control, kind=ControlMeasurement)
    assert case.control is not None and case.control.variant == "02-b" and case.control.floor is not None
    older = two_phases().analyse()[0].cases[0]
    assert older.control is not None and older.control.variant == "02-b"
    assert not [row for row in case.rows if row.kind is Kind.CONTROL]
