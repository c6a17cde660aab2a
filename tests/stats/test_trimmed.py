from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from phasewise.stats.trimmed import kept_rounds, trimmed_mean, yuen_interval


def test_ten_rounds_lose_two_at_either_end():
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    centre = trimmed_mean(values)
    # winsorised: 2 2 2 3 4 5 6 7 7 7; its squared deviations from 4.5 sum to 42.5, and h = 6
    assert centre.estimate == pytest.approx(4.5)
    assert centre.standard_error == pytest.approx(math.sqrt(42.5 / (6 * 5)))
    assert (centre.df, centre.rounds) == (5, 10)


@pytest.mark.parametrize("n", [5, 9, 12, 20, 37])
def test_the_centre_is_scipys_trimmed_mean(n):
    values = np.random.default_rng(n).standard_cauchy(n)
    assert trimmed_mean(values).estimate == pytest.approx(stats.trim_mean(values, 0.2))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_below_five_rounds_it_is_students_t(n):
    values = [0.010, 0.013, 0.008, 0.011][:n]
    student = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert yuen_interval(values) == pytest.approx((student.low, student.high))


def test_one_round_has_an_estimate_but_no_interval():
    centre = trimmed_mean([0.02])
    assert (centre.estimate, centre.standard_error, centre.df) == (0.02, math.inf, 0)
    assert yuen_interval([0.02]) == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [2, 7, 12, 31])
def test_identical_rounds_have_exactly_no_error(n):
    centre = trimmed_mean([0.1] * n)
    assert centre.estimate == pytest.approx(0.1, abs=1e-15)
    assert centre.standard_error == 0.0


def test_huge_outliers_do_not_move_it():
    values = [0.01 + 0.001 * math.sin(i) for i in range(12)]
    spoiled = [1e6 if i in (3, 8) else value for i, value in enumerate(values)]
    assert trimmed_mean(spoiled).estimate == pytest.approx(trimmed_mean(values).estimate, abs=0.001)
    assert trimmed_mean(spoiled).standard_error < 0.001


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused_by_place(bad):
    with pytest.raises(ValueError, match="entry 1 is"):
        trimmed_mean([0.1, bad, 0.2])


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="non-empty"):
        trimmed_mean([])


def test_the_interval_holds_its_level_and_is_shifted_with_the_data():
    samples = np.random.default_rng(0).normal(size=(4000, 12))
    missed = np.mean([not low <= 0.0 <= high for low, high in map(yuen_interval, samples)])
    assert 0.04 < missed < 0.06
    low, high = yuen_interval(samples[0])
    assert yuen_interval(samples[0] + 5.0) == pytest.approx((low + 5.0, high + 5.0))


def test_kept_rounds_never_fall_below_sixty_per_cent():
    assert [kept_rounds(n) for n in (1, 2, 4, 5, 9, 10, 12, 60)] == [1, 2, 4, 3, 7, 6, 8, 36]
