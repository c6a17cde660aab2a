from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from phasewise.stats.bootstrap import bca_interval
from phasewise.stats.trimmed import trimmed_centre, yuen_interval


@pytest.fixture
def rounds() -> np.ndarray:
    return np.random.default_rng(3).normal(0.01, 0.004, 30)


def test_the_same_seed_gives_the_same_interval(rounds):
    assert bca_interval(rounds, seed=7) == bca_interval(rounds, seed=7)
    assert bca_interval(rounds, seed=7) != bca_interval(rounds, seed=8)


@pytest.mark.parametrize("law", ["normal", "lognormal"])
def test_it_agrees_with_scipys_bca(law):
    values = getattr(np.random.default_rng(5), law)(size=40)
    theirs = stats.bootstrap((values,), trimmed_centre, n_resamples=20_000, vectorized=True).confidence_interval
    ours = bca_interval(values)
    assert ours is not None
    # both are random: allow 5 % of the width
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low))


def test_it_confirms_yuen_on_clean_rounds(rounds):
    low, high = yuen_interval(rounds)
    assert bca_interval(rounds) == pytest.approx((low, high), abs=0.2 * (high - low))


def test_under_twenty_rounds_there_is_none(rounds):
    assert bca_interval(rounds[:19]) is None
    assert bca_interval(rounds[:20]) is not None


def test_identical_rounds_give_a_point():
    assert bca_interval([0.25] * 25) == (0.25, 0.25)


def test_rounds_that_differ_only_where_trimmed_give_a_finite_interval():
    low, high = bca_interval([0.0] * 24 + [5.0]) or (math.nan, math.nan)
    assert low == 0.0
    assert 0.0 <= high < 1.0


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="entry 2 is nan"):
        bca_interval([0.0, 0.1, math.nan] * 10)
