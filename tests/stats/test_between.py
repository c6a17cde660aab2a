from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.between import BetweenVariance, learn_between, measure_level, summarise_sets
from phasewise.stats.sets import estimate_ratio
from phasewise.stats.trimmed import TrimmedMean


def sets_of(rng: np.random.Generator, *, sets: int = 3, rounds: int = 12, within: float, between: float) -> np.ndarray:
    return rng.normal(0.0, within, (sets, rounds)) + rng.normal(0.0, between, (sets, 1))


def learn(comparisons):
    levels = [measure_level(sets) for sets in comparisons]
    return learn_between(levels[0], levels)


def centre(estimate: float, standard_error: float = 0.001) -> TrimmedMean:
    return TrimmedMean(estimate=estimate, standard_error=standard_error, df=7, rounds=12)


def test_a_run_finds_the_variance_that_was_put_in():
    rng = np.random.default_rng(0)
    prior = learn([sets_of(rng, within=0.006, between=0.004) for _ in range(400)])
    assert prior is not None
    assert math.sqrt(prior.variance) == pytest.approx(0.004, rel=0.06)
    # alike, so worth the most, less what eight hundred degrees of freedom leave open
    assert prior.df == pytest.approx(1 / (1 / 32 + 1 / 800))


def test_the_degrees_of_freedom_of_the_law_are_found():
    rng = np.random.default_rng(1)
    for true in (4.0, 8.0):
        found = []
        for _ in range(5):
            sds = 0.004 * np.sqrt(true / rng.chisquare(true, 300))
            prior = learn([sets_of(rng, within=1e-4, between=sd) for sd in sds])
            assert prior is not None
            found.append(prior.df)
        assert np.median(found) == pytest.approx(true, rel=0.35)


def test_unlike_comparisons_teach_each_other_little():
    rng = np.random.default_rng(2)
    prior = learn([sets_of(rng, within=0.001, between=0.002 if i % 2 else 0.05) for i in range(40)])
    assert prior is not None
    assert prior.df < 3.5


def test_no_more_is_borrowed_than_the_others_know():
    rng = np.random.default_rng(3)
    found = [learn([sets_of(rng, within=0.002, between=0.004) for _ in range(4)]) for _ in range(50)]
    assert max(prior.df for prior in found if prior is not None) <= 1 / (1 / 32 + 1 / 8)


def test_the_variance_of_rounds_is_not_counted_as_between():
    rng = np.random.default_rng(2)
    prior = learn([sets_of(rng, within=0.006, between=0.0) for _ in range(200)])
    assert prior is not None
    assert math.sqrt(prior.variance) < 0.0007


def test_what_was_seen_and_what_was_expected_have_their_weights():
    prior = BetweenVariance(variance=9e-6, df=8.0)
    own = summarise_sets([centre(x) for x in (-0.01, 0.0, 0.01)])
    variance, df = prior.moderate(own)
    assert (variance, df) == (pytest.approx((8 * (9e-6 + 1e-6) + 2 * 1e-4) / 10), 10)
    # of one set nothing is seen but its rounds
    assert prior.moderate(summarise_sets([centre(0.5)])) == (pytest.approx(1e-5), 8)
    # sets that agree by luck are no surer than their rounds
    assert BetweenVariance(variance=0.0, df=0.1).moderate(summarise_sets([centre(0.0)] * 3))[0] == pytest.approx(1e-6)


def test_single_sets_and_single_rounds_teach_nothing():
    assert learn([[[0.1, 0.2, 0.3]], [[0.1, 0.2]]]) is None
    assert learn([[[0.1], [0.2], [0.3]], [[0.1], [0.2], [0.3]]]) is None
    # nobody else
    assert learn([[[0.1, 0.2, 0.4], [0.1, 0.2, 0.3]]]) is None


def test_sets_that_do_not_vary_expect_no_variance():
    prior = learn([[[0.1] * 4] * 3, [[0.2] * 4] * 3])
    assert prior is not None and prior.variance == 0.0


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
        own = estimate_ratio(quiet[0], between=learn_between(levels[0], levels))
        missed += not own.low <= 1.0 <= own.high
        widths.append(own.half_width)
        other = learn_between(levels[-1], levels)
        assert other is not None and math.sqrt(other.variance) > 0.01
    # 5 % of 300, and its upper 1 % point; one law for all would be 50 times as wide
    assert missed <= 25
    assert np.median(widths) < 0.003
