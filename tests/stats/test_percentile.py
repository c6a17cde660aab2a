from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.percentile import p50, p99


def test_the_median_ignores_order_and_averages_the_middle_pair():
    assert p50([3.0, 1.0, 2.0]) == 2.0
    assert p50([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert p50([7.0]) == 7.0


def test_the_99th_percentile_is_interpolated():
    assert p99([float(i) for i in range(101)]) == pytest.approx(99.0)


def test_under_a_hundred_samples_there_is_no_p99():
    samples = np.random.default_rng(0).random(100)
    assert p99(samples[:99]) is None
    assert p99(samples) is not None


@pytest.mark.parametrize("read", [p50, p99])
@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf]])
def test_no_samples_and_samples_that_are_not_finite_are_refused(read, bad):
    with pytest.raises(ValueError, match="samples for"):
        read(bad)
