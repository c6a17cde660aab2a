"""Few sets that agree claim nothing small where others of the run are seen to jump from process to process."""

from __future__ import annotations

import math

import pytest

from phasewise.stats import SetLevel, jump_limit

QUIET = SetLevel(sets=3, mean=0.03, scatter=1e-6, within=1e-6, within_df=10.0)


def spread(sd: float) -> SetLevel:
    return SetLevel(sets=3, mean=0.0, scatter=sd**2, within=1e-6, within_df=10.0)


def test_a_few_sets_have_to_clear_the_jumps_of_the_others() -> None:
    limit = jump_limit(QUIET, [QUIET, spread(0.02), spread(0.017)])
    assert limit == pytest.approx(0.04)
    # one set of three that lies off by d has a standard deviation of d / sqrt(3)
    assert limit > 0.02 * math.sqrt(3.0)


def test_spread_that_is_no_jump_limits_nothing() -> None:
    assert jump_limit(QUIET, [QUIET, spread(0.006), spread(0.009)]) == 0.0


def test_one_loud_comparison_among_many_is_its_own_affair() -> None:
    assert jump_limit(QUIET, [QUIET] * 7 + [spread(0.04)]) == 0.0
    assert jump_limit(QUIET, [QUIET] * 3 + [spread(0.04)]) > 0.0


def test_five_sets_need_nobody() -> None:
    many = SetLevel(sets=5, mean=0.03, scatter=1e-6, within=1e-6, within_df=10.0)
    assert jump_limit(many, [many, spread(0.02), spread(0.02)]) == 0.0


def test_alone_there_is_nothing_to_see() -> None:
    assert jump_limit(QUIET, [QUIET]) == 0.0
    assert jump_limit(QUIET, []) == 0.0
