from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from phasewise.stats.looks import StopRules, paid_error

QUICK = StopRules(least_sets=1, most_sets=1)
FIXED = StopRules(least_sets=10, most_sets=10)


def miss_rate(error: float, *, noise: float, first: int = 3, last: int = 10, trials: int = 8000) -> float:
    """Misses counted, not integrated: sets are added until the half-width is under 1 or a quarter of the estimate."""
    values = np.random.default_rng(17).normal(0.0, noise, (trials, last))
    missed, stopped = np.zeros(trials, bool), np.zeros(trials, bool)
    for sets in range(first, last + 1):
        mean, spread = values[:, :sets].mean(axis=1), values[:, :sets].std(axis=1, ddof=1)
        width = stats.t.isf(error / 2.0, sets - 1) * spread / np.sqrt(sets)
        stops = ~stopped & ((width < np.maximum(1.0, np.abs(mean) / 4.0)) | (sets == last))
        missed |= stops & (np.abs(mean) > width)
        stopped |= stops
    return float(missed.mean())


@pytest.mark.parametrize("noise", [0.3, 0.8, 1.2, 1.5, 3.0])
def test_after_paying_the_interval_at_the_stop_misses_at_most_five_per_cent(noise):
    # two standard errors of 8000 trials are 0.5 %
    assert miss_rate(paid_error(StopRules(), level=0.95), noise=noise) <= 0.055


def test_without_paying_it_would_miss_far_more():
    assert miss_rate(0.05, noise=1.5) > 0.08


def test_a_fixed_amount_of_data_costs_nothing():
    assert paid_error(None, level=0.95) == pytest.approx(0.05)
    assert paid_error(FIXED, level=0.95) == pytest.approx(0.05)


def test_more_looks_cost_more_and_a_pool_makes_them_cheap():
    own = paid_error(StopRules(), level=0.95)
    assert own < paid_error(StopRules(most_sets=5), level=0.95) < 0.05
    assert own < paid_error(StopRules(), level=0.95, pooled_df=4) < paid_error(StopRules(), level=0.95, pooled_df=16)
    assert 0.046 < paid_error(StopRules(), level=0.95, pooled_df=16) < 0.05


def test_looks_at_rounds_are_paid_for_in_a_single_set():
    assert 0.03 < paid_error(QUICK, level=0.95) < 0.045
    # one look a round keeps the same number of rounds twice in a row at times
    assert 0.03 < paid_error(StopRules(least_sets=1, most_sets=1, rounds_a_look=1), level=0.95) < 0.045


@pytest.mark.parametrize(
    "wrong",
    [
        {"least_sets": 1},
        {"least_sets": 4, "most_sets": 3},
        {"least_rounds": 1},
        {"least_rounds": 12, "most_rounds": 11},
        {"rounds_a_look": 0},
        {"half_width": 0.0},
        {"share": -0.1},
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="stop rules"):
        StopRules(**wrong)
