from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.holm import holm


def test_the_textbook_example():
    # 0.005 * 4, then max(., 0.01 * 3), max(., 0.03 * 2), max(., 0.04 * 1)
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_adjusted_values_are_never_smaller_and_never_above_one():
    p = np.random.default_rng(0).random(50)
    adjusted = np.array(holm(p))
    assert np.all(adjusted >= p)
    assert adjusted.max() <= 1.0


def test_the_order_of_the_comparisons_does_not_matter():
    p = np.random.default_rng(1).random(20)
    order = np.random.default_rng(2).permutation(20)
    assert np.array(holm(p))[order] == pytest.approx(holm(p[order]))


def test_one_or_no_comparison_is_left_alone():
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


def test_the_family_keeps_its_level_under_no_difference():
    p = np.random.default_rng(3).random((4000, 10))
    alarms = np.mean([min(holm(row)) <= 0.05 for row in p])
    assert alarms == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_what_is_no_probability_is_refused(bad):
    with pytest.raises(ValueError):
        holm([0.5, bad])
