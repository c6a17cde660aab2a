from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.between import BetweenVariance, is_like, measure_level, pool_like, pool_set_levels, summarise_sets
from phasewise.stats.sets import estimate_ratio
from phasewise.stats.trimmed import TrimmedMean


def sets_of(rng: np.random.Generator, *, sets: int = 3, rounds: int = 12, within: float, between: float) -> np.ndarray:
    return rng.normal(0.0, within, (sets, rounds)) + rng.normal(0.0, between, (sets, 1))


def pool_between(comparisons):
    return pool_set_levels([measure_level(sets) for sets in comparisons])


def centre(estimate: float, standard_error: float = 0.001) -> TrimmedMean:
    return TrimmedMean(estimate=estimate, standard_error=standard_error, df=7, rounds=12)


def test_the_pool_finds_the_variance_that_was_put_in():
    rng = np.random.default_rng(0)
    pool = pool_between([sets_of(rng, within=0.006, between=0.004) for _ in range(400)])
    assert pool is not None
    assert math.sqrt(pool.variance) == pytest.approx(0.004, rel=0.06)
    assert pool.df == 800


def test_eight_comparisons_of_three_sets_give_sixteen_degrees_of_freedom():
    rng = np.random.default_rng(1)
    pool = pool_between([sets_of(rng, within=0.002, between=0.004) for _ in range(8)])
    assert pool is not None
    assert pool.df == 16


def test_the_variance_of_rounds_is_not_counted_as_between():
    rng = np.random.default_rng(2)
    pool = pool_between([sets_of(rng, within=0.006, between=0.0) for _ in range(200)])
    assert pool is not None
    assert math.sqrt(pool.variance) < 0.0007


def test_one_wild_comparison_is_left_out_and_found_unlike():
    rng = np.random.default_rng(3)
    calm = [summarise_sets([centre(x) for x in rng.normal(0.0, 0.004, 3)]) for _ in range(8)]
    wild = summarise_sets([centre(x) for x in (-0.08, 0.0, 0.08)])
    pool = pool_set_levels([*calm, wild])
    assert pool == pool_set_levels(calm)
    assert pool is not None
    assert not is_like(wild, pool)


def test_a_like_comparison_is_seldom_left_out():
    rng = np.random.default_rng(4)
    pools = [pool_between([sets_of(rng, within=0.006, between=0.004) for _ in range(8)]) for _ in range(150)]
    left_out = sum(pool is not None and pool.df < 16 for pool in pools)
    # Cochran's test at 5 % for the whole run; 150 runs, so 14 is its upper 1 % point
    assert left_out <= 14


def test_a_comparison_with_small_scatter_is_like_any_pool():
    pool = BetweenVariance(variance=1e-5, df=16, mean_square=1.2e-5)
    assert is_like(summarise_sets([centre(0.01), centre(0.01), centre(0.0101)]), pool)


def test_one_set_cannot_contradict_the_pool():
    assert is_like(summarise_sets([centre(0.5)]), BetweenVariance(variance=1e-8, df=16, mean_square=1e-8))


def test_single_sets_and_single_rounds_teach_nothing():
    assert pool_between([[[0.1, 0.2, 0.3]], [[0.1, 0.2]]]) is None
    assert pool_between([[[0.1], [0.2], [0.3]]]) is None
    assert pool_between([]) is None


def test_sets_that_do_not_vary_give_a_pool_of_zero():
    pool = pool_between([[[0.1] * 4] * 3, [[0.2] * 4] * 3])
    assert pool == BetweenVariance(variance=0.0, df=4.0, mean_square=0.0)
    scattered = summarise_sets([centre(x, 0.0) for x in (0.0, 0.1, 0.2)])
    assert not is_like(scattered, pool)


def test_noisy_rounds_of_its_own_lower_the_degrees_of_freedom():
    pool = BetweenVariance(variance=1e-5, df=16, mean_square=1.2e-5)
    quiet = summarise_sets([centre(0.0, 1e-4), centre(0.001, 1e-4)])
    noisy = summarise_sets([centre(0.0, 0.02), centre(0.001, 0.02)])
    assert pool.df_with(quiet) < 16
    # two sets of seven degrees of freedom each are all that is known of the rounds
    assert 13 < pool.df_with(noisy) < 15


def test_a_comparison_without_sets_is_refused():
    with pytest.raises(ValueError, match="no process set"):
        summarise_sets([])


def test_a_comparison_borrows_only_from_those_whose_rounds_are_as_noisy():
    rng = np.random.default_rng(5)
    missed, widths = 0, []
    for _ in range(300):
        quiet = [sets_of(rng, within=0.001, between=0.001) for _ in range(6)]
        loud = [sets_of(rng, within=0.06, between=0.1) for _ in range(6)]
        levels = [measure_level(sets) for sets in quiet + loud]
        own = estimate_ratio(quiet[0], between=pool_like(quiet[0], levels))
        missed += not own.low <= 1.0 <= own.high
        widths.append(own.half_width)
        other = pool_like(loud[0], levels)
        assert other is not None and math.sqrt(other.mean_square) > 0.01
    # 5 % of 300, and its upper 1 % point; one pool for all would be 50 times as wide
    assert missed <= 25
    assert np.median(widths) < 0.003


def test_rounds_alike_share_one_pool_and_rounds_without_noise_are_of_their_own():
    rng = np.random.default_rng(6)
    alike = [sets_of(rng, within=0.006, between=0.004) for _ in range(8)]
    levels = [measure_level(sets) for sets in alike]
    assert all(pool_like(sets, levels) == pool_set_levels(levels) for sets in alike)
    still = [[0.1] * 4] * 3
    assert pool_like(still, levels) is None
    assert pool_like(still, [*levels, measure_level(still)]) is not None
