"""A baseline that was timed at smaller shapes: what is told of it, and what is no proof."""

from __future__ import annotations

import math

import msgspec
import numpy as np
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


def jitter(point: ScalePoint, seed: int) -> ScalePoint:
    """Its blocks on a host on which two of them differ by half."""
    noise = np.exp(0.2 * np.random.default_rng(seed).standard_normal(40))
    return msgspec.structs.replace(point, wall_s=tuple(point.wall_s[0] * w for w in noise))


@pytest.mark.parametrize(
    ("operators", "larger", "is_linear"),
    [
        # the same work an item, but for what a step does once
        ((10_010, 20_010), 1e-3, True),
        ((0, 0), 1e-3, False),
        # a quarter more work, which the noise would hide
        ((10_000, 25_000), 1e-3, False),
        # work that does not grow with the items
        ((10_000, 10_000), 1e-3, False),
        # the same work, and times that say otherwise
        ((10_000, 20_000), 1.5e-3, False),
    ],
)
def test_where_times_are_noise_the_count_shows_what_is_linear(
    operators: tuple[int, int], larger: float, is_linear: bool
) -> None:
    large, small = points(1e-3, larger, operators)
    found = extrapolate((jitter(large, 1), jitter(small, 2)))
    assert found is not None
    assert found.bounds[1] - found.bounds[0] > 0.1 and found.is_linear is is_linear


def test_a_count_does_not_help_times_that_tell_nothing() -> None:
    large, small = points(1e-3, 1e-3, (100, 200))
    bare = tuple(msgspec.structs.replace(point, wall_s=point.wall_s[:1]) for point in (large, small))
    turns = ((0.4, 0.2, 0.8, 0.3), (0.1, 0.4, 0.2, 0.15))
    wide = tuple(msgspec.structs.replace(point, wall_s=wall) for point, wall in zip((large, small), turns, strict=True))
    for scale in (bare, wide):
        found = extrapolate(scale)
        assert found is not None and not found.is_linear


def test_the_report_tells_the_count() -> None:
    scale = points(1e-3, 1.03e-3, (1000, 2000))
    run = make_run(Phase(name="a", speedup=100.0, has_parent_arm=False), scale=scale, step_s=1.0, slow_baseline=True)
    told = run.analyse()[0].cases[0].extrapolation
    assert told is not None and told.is_linear and told.more_work == 0
    assert [(point.operators, point.elements) for point in told.points] == [(1000, 4000), (2000, 8000)]
    assert sentences.extrapolation(told).startswith("Linear: by count, the work of one does not change")


def test_where_the_count_differs_precise_times_show_it_alone() -> None:
    assert extrapolate(points(1e-3, 1.01e-3, (1000, 2400))).is_linear
    told = make_run(
        Phase(name="a", speedup=9.0, has_parent_arm=False), scale=points(1e-3, 1e-3, (1000, 2400)), step_s=1.0,
        slow_baseline=True,
    ).analyse()[0].cases[0].extrapolation  # fmt: skip
    assert told is not None and told.is_linear and not told.same_work and told.doubt == 0.10
    words = sentences.extrapolation(told)
    assert "by count, the work of one changes by +20" in words and "are allowed" in words


def test_work_that_grows_is_named_where_no_speed_up_is_told() -> None:
    found = extrapolate(points(1e-3, 1.2e-3, (1000, 2400)))
    assert found is not None and "its work by +20.0 % by count" in found.describe()


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
