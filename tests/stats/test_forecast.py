"""Predicted intervals: they hold as often as they say, and the score is least for the right one."""

from __future__ import annotations

import numpy as np
import pytest

from phasewise.stats import interval_score, next_value


@pytest.mark.parametrize("n", [3, 10, 40])
def test_the_next_value_lies_inside_as_often_as_the_level_says(n: int) -> None:
    rng = np.random.default_rng(n)
    drawn = rng.normal(0.5, 2.0, size=(4000, n + 1))
    held = [low <= row[-1] <= high for row in drawn for low, high in [next_value(row[:-1], level=0.8)]]
    assert np.mean(held) == pytest.approx(0.8, abs=0.02)


def test_one_value_tells_no_width() -> None:
    with pytest.raises(ValueError, match="at least two"):
        next_value([1.0], level=0.8)


def test_the_score_is_least_for_the_quantiles_of_the_law() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    halves = (0.6, 1.0, 1.2816, 1.6, 2.2)
    means = [np.mean([interval_score(-half, half, value, level=0.8) for value in values]) for half in halves]
    assert int(np.argmin(means)) == 2


def test_a_value_inside_costs_the_width_alone() -> None:
    assert interval_score(1.0, 3.0, 1.0, level=0.8) == 2.0
    assert interval_score(1.0, 3.0, 3.5, level=0.8) == pytest.approx(2.0 + 10.0 * 0.5)
