"""Speed-ups over the baseline: direct where it ran in the same rounds, else chained or per item."""

from __future__ import annotations

import math

import msgspec
import pytest
from synthetic_run import Phase, make_run

from phasewise.analyse.scale import extrapolate
from phasewise.records.measure import ScalePoint
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Reason, Status
from phasewise.report import sentences


def points(small: float, large: float) -> tuple[ScalePoint, ...]:
    """Seconds an item at 100 and at 200 items, with 1 % of noise."""
    wobble = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)
    return (
        ScalePoint(shape={"n": 200}, items=200.0, wall_s=tuple(200 * large * w for w in wobble)),
        ScalePoint(shape={"n": 100}, items=100.0, wall_s=tuple(100 * small * w for w in wobble)),
    )


def test_in_the_same_rounds_it_is_measured_and_not_chained() -> None:
    rows = make_run(Phase(name="a", speedup=2.0), Phase(name="b", speedup=1.5)).rows()
    verdict = rows["b"].verdict
    assert not verdict.chained
    assert verdict.over_baseline is not None and verdict.over_baseline.estimate == pytest.approx(3.0, rel=0.01)


def test_a_slow_baseline_is_chained_and_the_interval_widens() -> None:
    rows = make_run(
        Phase(name="a", speedup=20.0), Phase(name="b", speedup=1.5), Phase(name="c", speedup=2.0), slow_baseline=True
    ).rows()
    assert not rows["a"].verdict.chained
    assert rows["c"].verdict.chained
    found = rows["c"].verdict.over_baseline
    assert found is not None and found.low <= 60.0 <= found.high
    widths = [math.log(row.high / row.low) for row in (rows["a"].verdict.over_baseline, found) if row is not None]
    assert widths[1] > widths[0]


def test_an_enabled_phase_has_no_speed_up_and_neither_has_what_stands_on_it() -> None:
    from phasewise.records.verdict import Failure

    oom = Failure(reason=Reason.OUT_OF_MEMORY, message="no")
    run = make_run(
        Phase(name="a", parent_failure=oom),
        Phase(name="b", speedup=1.5),
        slow_baseline=True,
        baseline=Phase(name="baseline", failure=oom),
    )
    rows = run.rows()
    assert rows["a"].verdict.status is Status.ENABLED
    assert rows["b"].verdict.status is Status.FASTER
    assert rows["b"].verdict.over_baseline is None


def test_a_linear_baseline_is_extrapolated_per_item() -> None:
    # 1e-3 s an item, and the phase does 1000 items in 10 ms: 100 times faster
    run = make_run(
        Phase(name="a", speedup=100.0, has_parent_arm=False),
        Phase(name="b", speedup=2.0),
        scale=points(1e-3, 1e-3),
        step_s=1.0,
        slow_baseline=True,
    )
    # the first phase ran alone: its rounds hold no other arm
    rows = run.rows()
    first, second = rows["a"].verdict, rows["b"].verdict
    assert first.status is Status.FASTER
    assert first.chained and second.chained
    assert first.over_baseline is not None and first.over_baseline.low <= 100.0 <= first.over_baseline.high
    assert second.over_baseline is not None and second.over_baseline.low <= 200.0 <= second.over_baseline.high
    assert rows["00-baseline"].time_s is not None
    assert rows["00-baseline"].time_s.estimate == pytest.approx(1.0, rel=0.02)


def test_a_baseline_that_is_not_linear_is_not_extrapolated() -> None:
    run = make_run(
        Phase(name="a", speedup=100.0, has_parent_arm=False), scale=points(1e-3, 1.1e-3), step_s=1.0, slow_baseline=True
    )
    verdict = run.verdict("a")
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, Reason.NOT_LINEAR)
    assert verdict.over_baseline is None
    assert run.rows()["00-baseline"].time_s is None


def test_half_of_what_the_two_shapes_differ_by_counts_as_doubt() -> None:
    same, off = extrapolate(points(1e-3, 1e-3)), extrapolate(points(1e-3, 1.04e-3))
    assert same is not None and off is not None
    assert off.is_linear and off.departure == pytest.approx(0.04, rel=0.05)
    assert off.standard_error > same.standard_error
    assert off.standard_error >= math.log(1.04) / 2 * 0.99


def test_blocks_of_one_turn_are_held_against_each_other_since_they_saw_the_same_machine() -> None:
    drift = (1.0, 1.5, 2.2, 0.9, 1.3, 1.8)
    scale = tuple(
        ScalePoint(shape={}, items=n, wall_s=tuple(1e-3 * n * slow for slow in drift)) for n in (100.0, 200.0)
    )
    found = extrapolate(scale)
    assert found is not None
    assert max(map(abs, (found.departure, *found.bounds))) < 1e-9 and found.is_linear


@pytest.mark.parametrize(("larger", "is_linear"), [(1e-3, True), (1.1e-3, False)])
def test_the_report_tells_both_shapes_and_what_follows_for_the_whole(larger: float, is_linear: bool) -> None:
    run = make_run(
        Phase(name="a", speedup=100.0, has_parent_arm=False), scale=points(1e-3, larger), step_s=1.0, slow_baseline=True
    )
    told = run.analyse()[0].cases[0].extrapolation
    assert told is not None
    assert [(point.items, point.blocks) for point in told.points] == [(100.0, 6), (200.0, 6)]
    assert [point.per_item_s.estimate for point in told.points] == pytest.approx([1e-3, larger], rel=0.01)
    assert told.departure.estimate == pytest.approx(larger / 1e-3 - 1, abs=0.01)
    assert told.is_linear is is_linear
    assert (told.whole_s is not None) is is_linear
    words = sentences.extrapolation(told)
    assert words.startswith("Linear: " if is_linear else "Not shown to be linear: ") and "[" in words


def test_what_noise_hides_is_not_shown_to_be_linear() -> None:
    noisy = (1.0, 1.5, 0.8, 1.3, 0.9)
    small, large = points(1e-3, 1e-3)[1], points(1e-3, 1e-3)[0]
    found = extrapolate((
        msgspec.structs.replace(small, wall_s=tuple(0.1 * w for w in noisy)),
        msgspec.structs.replace(large, wall_s=tuple(0.2 * w for w in reversed(noisy))),
    ))  # fmt: skip
    assert found is not None
    assert abs(found.departure) < 0.05 and found.bounds[1] > 0.1 and not found.is_linear


def test_of_one_block_at_each_shape_no_interval_is_shown() -> None:
    single = tuple(msgspec.structs.replace(point, wall_s=point.wall_s[:1]) for point in points(1e-3, 1.02e-3))
    told = make_run(Phase(name="a", speedup=9.0, has_parent_arm=False), scale=single, step_s=1.0, slow_baseline=True)
    found = told.analyse()[0].cases[0].extrapolation
    assert found is not None
    words = sentences.extrapolation(found)
    assert "changes by +2.0" in words and "[" not in words
    # and it is no proof
    assert not found.is_linear and words.startswith("Not shown to be linear")


def test_a_baseline_that_was_timed_at_its_own_shape_is_not_extrapolated() -> None:
    assert make_run(Phase(name="a", speedup=2.0)).analyse()[0].cases[0].extrapolation is None


def test_two_samples_at_one_shape_are_no_line() -> None:
    assert extrapolate(points(1e-3, 1e-3)[:1]) is None


def test_of_single_samples_only_their_distance_tells_the_noise() -> None:
    bare = tuple(ScalePoint(shape={}, items=n, wall_s=(n * per,)) for n, per in ((100.0, 1e-3), (200.0, 1.02e-3)))
    found = extrapolate(bare)
    assert found is not None
    assert (found.df, found.standard_error) == (1.0, pytest.approx(math.log(1.02) / 2))
    assert not found.is_linear


def test_a_parent_that_failed_its_gate_for_want_of_memory_makes_the_child_enabled() -> None:
    from phasewise.records.verdict import Failure

    oom = Failure(reason=Reason.OUT_OF_MEMORY, message="no room")
    run = make_run(
        Phase(name="red", outcome=Outcome.FAIL),
        Phase(name="rows", has_parent_arm=False),
        baseline=Phase(name="baseline", gate_failure=oom, failure=oom),
        slow_baseline=True,
    )
    verdict = run.verdict("rows")
    assert (verdict.status, verdict.reason) == (Status.ENABLED, Reason.PARENT_CANNOT_RUN)
    assert "00-baseline" in verdict.detail
