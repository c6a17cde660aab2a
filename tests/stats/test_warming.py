"""A ratio that trends within its sets is found, and how much it may be off by; noise is seldom taken for a trend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phasewise.stats import StopRules, find_warming
from phasewise.stats.noise import LAWS, simulate_rounds
from phasewise.stats.simulate import simulate_power


def rounds(*, sets: int = 3, warm: float = 0.0, seed: int = 0, n: int = 12) -> np.ndarray:
    """Ratios 0.6 % noisy, which the second arm's warm-up lowers by `warm` in the first round, falling off over three."""
    noise = np.random.default_rng(seed).normal(0.0, 0.006, (sets, n))
    return noise - warm * np.exp(-np.arange(n) / 3.0)


def test_a_warm_up_of_one_arm_is_found_with_its_size() -> None:
    found = [find_warming(rounds(warm=0.02, seed=seed)) for seed in range(100)]
    assert sum(size > 0.0 for size in found) >= 95
    # more than what it moves the mean of a set by
    assert np.median(found) > 0.02 * np.exp(-np.arange(12) / 3.0).mean()


def test_of_a_line_it_is_twice_what_it_rises_by() -> None:
    assert find_warming([list(np.linspace(0.0, 0.03, 12))] * 3) == pytest.approx(0.06, rel=0.1)


def test_a_start_up_that_fades_slowly_is_seldom_taken_for_a_gain() -> None:
    """2 % at first, of one arm alone, which fades over ten blocks: it moves the mean of a set by over 1 %."""
    noise = replace(LAWS["warm-up in one arm"], warm_blocks=10.0)
    found = simulate_power(gain=0.0, rules=StopRules(least_sets=3, most_sets=6, most_rounds=24), runs=40, noise=noise)
    assert found.missed > 0.5 and found.faster + found.slower <= 0.01


@pytest.mark.parametrize("law", ["independent", "process 0.7 %", "heavy tails", "bistable process", "a GPU box"])
def test_noise_is_seldom_taken_for_a_trend(law: str) -> None:
    rng = np.random.default_rng(1)
    found = [find_warming(simulate_rounds(rng, sets=3, rounds=12, noise=LAWS[law])) for _ in range(400)]
    # 2 % and three standard errors
    assert np.mean([size > 0.0 for size in found]) <= 0.041


def test_sets_that_trend_in_opposite_ways_do_not_add_up() -> None:
    rise = list(np.linspace(0.0, 0.02, 12))
    assert find_warming([rise, rise[::-1]]) == 0.0
    assert find_warming([rise, rise]) > 0.0


def test_of_a_few_rounds_nothing_is_told() -> None:
    assert find_warming([[0.0, 0.01, 0.02, 0.03, 0.04]] * 5) == 0.0
    assert find_warming([]) == 0.0
