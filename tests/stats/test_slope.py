from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from phasewise.stats.slope import is_warm, measure_trend


def steps(n: int, *, noise: float = 0.004, ramp: float = 0.0, seed: int = 0) -> np.ndarray:
    """n step times of about 1 ms that fall by `ramp` over the last 30."""
    rng = np.random.default_rng(seed)
    return 1e-3 * np.exp(rng.normal(0.0, noise, n) - ramp * np.linspace(0.0, n / 30.0, n))


def test_too_few_steps_are_not_warm():
    assert measure_trend(steps(29)) is None
    assert not is_warm(steps(29))


def test_flat_noise_is_warm_in_most_windows():
    cold = sum(not is_warm(steps(30, seed=seed)) for seed in range(400))
    # the nominal 5 % of 400, and two standard errors
    assert cold <= 29


def test_steps_that_still_get_faster_are_not_warm():
    trend = measure_trend(steps(30, ramp=0.05))
    assert trend is not None
    assert trend.change == pytest.approx(-0.05, abs=0.01)
    assert trend.low <= trend.change <= trend.high < 0.0
    assert not is_warm(steps(30, ramp=0.05))


@pytest.mark.parametrize("n", [9, 30, 300])
@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("digits", [12, 5])
def test_trend_and_interval_are_those_of_scipy(n, level, digits):
    # few digits, and times are equal, as those of a coarse clock
    times = np.round(steps(n, ramp=0.01, seed=n), digits)
    found = measure_trend(times, window=n // 3, level=level)
    wanted = stats.theilslopes(np.log(times), alpha=level)
    slopes = (wanted.slope, wanted.low_slope, wanted.high_slope)
    assert found is not None
    assert (found.change, found.low, found.high) == pytest.approx([math.expm1(s * (n - 1)) for s in slopes], rel=1e-12)


def test_only_the_last_windows_count():
    times = np.concatenate([steps(60, ramp=0.5), steps(30, seed=1)])
    assert is_warm(times)
    assert is_warm(times) == is_warm(times[-30:])


def test_single_slow_steps_do_not_hide_or_feign_a_trend():
    flat, falling = steps(30, seed=2), steps(30, ramp=0.05, seed=2)
    for times in (flat, falling):
        times[[1, 12, 29]] *= 8.0
    assert is_warm(flat)
    assert not is_warm(falling)


def test_a_trend_too_small_to_matter_is_warm():
    assert is_warm(1e-3 * np.exp(-np.linspace(0.0, 0.0005, 30)))
    assert not is_warm(1e-3 * np.exp(-np.linspace(0.0, 0.005, 30)))


def test_identical_steps_are_warm():
    trend = measure_trend([0.002] * 30)
    assert trend is not None
    assert (trend.change, trend.is_flat) == (0.0, True)


def test_windows_can_be_of_single_long_steps():
    assert is_warm([2.0, 2.01, 1.99], window=1)
    assert not is_warm([2.0, 2.01], window=1)


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0])
def test_times_that_are_no_times_are_refused(bad):
    with pytest.raises(ValueError, match="warm-up"):
        measure_trend([1.0] * 29 + [bad])
