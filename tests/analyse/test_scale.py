"""A baseline that was timed at smaller shapes: what is told of it, and what is no proof."""

from __future__ import annotations

import math

import msgspec
import pytest
from synthetic_run import Phase, make_run, points

from phasewise.analyse.scale import extrapolate
from phasewise.records.measure import ScalePoint
from phasewise.report import sentences


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
