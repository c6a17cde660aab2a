from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from phasewise.stats.chain import chain_ratios
from phasewise.stats.looks import StopRules
from phasewise.stats.ratio import p_value, satterthwaite
from phasewise.stats.sets import estimate_ratio


def link(seed: int, effect: float, **kwargs):
    rng = np.random.default_rng(seed)
    return estimate_ratio(effect + rng.normal(0.0, 0.004, (3, 1)) + rng.normal(0.0, 0.006, (3, 12)), **kwargs)


def test_ratios_multiply_and_variances_add():
    first, second = link(0, 1.2), link(1, -0.3)
    whole = chain_ratios([first, second])
    assert whole.estimate == pytest.approx(first.estimate * second.estimate)
    assert whole.standard_error == pytest.approx(math.hypot(first.standard_error, second.standard_error))
    assert whole.df == pytest.approx(
        satterthwaite([(first.standard_error**2, first.df), (second.standard_error**2, second.df)])
    )
    assert whole.low < whole.estimate < whole.high
    assert (whole.method, whole.sets, whole.rounds) == ("chained", 3, 36)


def test_equal_links_double_the_degrees_of_freedom():
    one = link(0, 0.1)
    assert chain_ratios([one, one]).df == pytest.approx(2 * one.df)


def test_a_chain_of_one_is_itself():
    one = link(0, 0.1)
    assert chain_ratios([one]) is one


def test_a_link_without_an_interval_leaves_none():
    whole = chain_ratios([link(0, 0.1), estimate_ratio([[0.5]])])
    assert (whole.low, whole.high) == (0.0, math.inf)
    assert whole.within_sd is None
    assert p_value(whole) == 1.0


def test_links_without_noise_leave_a_point():
    whole = chain_ratios([estimate_ratio([[0.5] * 5]), estimate_ratio([[0.25] * 5])])
    assert whole.low == whole.high == pytest.approx(math.exp(0.75))


def test_the_looks_of_a_link_are_paid_for_in_the_whole():
    paid, plain = link(0, 0.1, rules=StopRules()), link(1, 0.1)
    assert chain_ratios([paid, plain]).spent == paid.spent < plain.spent


def test_the_chained_interval_holds_its_level():
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(1500):
        links = [estimate_ratio(rng.normal(0.0, 0.004, (4, 1)) + rng.normal(0.0, 0.006, (4, 12))) for _ in range(2)]
        whole = chain_ratios(links)
        missed += not whole.low <= 1.0 <= whole.high
    assert missed / 1500 < 0.06


def test_an_empty_chain_and_mixed_levels_are_refused():
    with pytest.raises(ValueError, match="one or more"):
        chain_ratios([])
    with pytest.raises(ValueError, match=r"0\.9, 0\.95"):
        chain_ratios([link(0, 0.1), replace(link(1, 0.1), level=0.9)])
