"""A baseline that is too slow for the shape of its case is told at the shapes that it can run, and nowhere else."""

from __future__ import annotations

import math

import msgspec
import pytest
from synthetic_run import Phase, Run, make_run, points

from phasewise.analyse import analyse_run
from phasewise.records.measure import (
    Arm,
    CaseMeasurement,
    HeadlineMeasurement,
    Round,
    Sample,
    ScalePoint,
    SmallerMeasurement,
)
from phasewise.records.prepare import CaseWork
from phasewise.records.verdict import Level, Reason, Status


def too_slow(scale: tuple[ScalePoint, ...]) -> Run:
    return make_run(
        Phase(name="a", speedup=100.0, has_parent_arm=False),
        Phase(name="b", speedup=2.0),
        scale=scale,
        step_s=1.0,
        slow_baseline=True,
    )


def test_it_is_told_at_each_shape_where_it_was_timed() -> None:
    told = too_slow(points(1e-3, 1.1e-3, (1000, 2000))).analyse()[0].cases[0].smaller
    assert [(point.items, point.blocks, point.operators) for point in told] == [(100.0, 6, 1000), (200.0, 6, 2000)]
    assert [point.step_s.estimate for point in told] == pytest.approx([0.1, 0.22], rel=0.01)
    assert all(point.step_s.low < point.step_s.estimate < point.step_s.high for point in told)


@pytest.mark.parametrize("count", [1, 3])
def test_there_may_be_any_number_of_shapes(count: int) -> None:
    scale = tuple(
        ScalePoint(shape={"n": n}, items=float(n), wall_s=(n * 1e-3, n * 1.01e-3)) for n in (400, 100, 200)[:count]
    )
    told = too_slow(scale).analyse()[0].cases[0].smaller
    assert [point.items for point in told] == [[400.0], [], [100.0, 200.0, 400.0]][count - 1]


def test_of_one_block_there_is_no_width() -> None:
    single = tuple(msgspec.structs.replace(point, wall_s=point.wall_s[:1]) for point in points(1e-3, 1.02e-3))
    point = too_slow(single).analyse()[0].cases[0].smaller[0]
    assert point.step_s.low == point.step_s.estimate == point.step_s.high


def test_no_ratio_is_made_of_it_however_linear_it_looks() -> None:
    run = too_slow(points(1e-3, 1e-3, (1000, 2000)))
    analysis, _ = run.analyse()
    rows = run.rows()
    assert (rows["a"].verdict.status, rows["a"].verdict.reason) == (Status.INCONCLUSIVE, Reason.SMALLER_SHAPES)
    assert rows["b"].verdict.status is Status.FASTER
    assert all(row.verdict.over_baseline is None for row in rows.values())
    assert rows["00-baseline"].time_s is None
    case = analysis.cases[0]
    assert case.stack_speedup is None and case.stack_level is Level.NONE
    assert not any(
        math.isfinite(value) and value > 1e3 for row in rows.values() for value in row.verdict.numbers.values()
    )


def test_the_end_of_the_stack_is_compared_with_it_at_these_shapes_alone() -> None:
    run = too_slow(points(1e-3, 1e-3))
    arms = (Arm(arm="baseline", variant="00-baseline", items=200.0), Arm(arm="variant", variant="02-b", items=200.0))
    rounds = tuple(
        Round(
            process_set=number // 4,
            samples=(
                Sample(arm="baseline", steps=1, wall_s=0.2 * (1 + 0.01 * (number % 3))),
                Sample(arm="variant", steps=1, wall_s=0.005),
            ),
        )
        for number in range(20)
    )
    beside = SmallerMeasurement(shape={"n": 200}, measured=CaseMeasurement(case="main", arms=arms, rounds=rounds))
    records = run.records()
    records.add(
        HeadlineMeasurement(
            workload="toy", run="full-h200", case="main", plans={}, machine=run.machine.identity, commit="abc",
            measured=CaseMeasurement(case="main", arms=()), smaller=(beside,),
        ),
        "main",
    )  # fmt: skip
    (case,) = analyse_run(records)[0].cases
    small, large = case.smaller
    assert small.speedup is None and large.speedup is not None
    assert large.speedup.low < 40.4 < large.speedup.high and large.speedup.high < 42.0
    # which says nothing of the case's own shape
    assert case.stack_speedup is None and case.rows[-1].verdict.over_baseline is None


def test_the_best_possible_time_is_of_a_step_of_the_case_and_not_of_one_item() -> None:
    work = CaseWork(case="main", items=1000.0, flops=0.0, bytes=4e9, working_set_bytes=4e9)
    run = make_run(
        Phase(name="a", has_parent_arm=False), scale=points(1e-3, 1e-3), step_s=1.0, slow_baseline=True, work=work
    )
    case = run.analyse()[0].cases[0]
    assert case.floor_s == pytest.approx(1e-3) and case.floor_kind == "memory"


def test_a_baseline_that_was_timed_at_its_own_shape_has_no_smaller_ones() -> None:
    assert make_run(Phase(name="a", speedup=2.0)).analyse()[0].cases[0].smaller == ()
