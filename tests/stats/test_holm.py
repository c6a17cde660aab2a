from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.holm import holm, holm_families


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


def test_one_family_is_holm_and_empty_ones_cost_nothing():
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm_families([p]) == [holm(p)]
    assert holm_families([[], p, []]) == [[], holm(p), []]
    assert holm_families([]) == []


def test_a_family_pays_for_the_others_until_they_are_claimed_whole():
    # the second needs 2 * 0.001 and then leaves its share, so the first is Holm's alone; 0.3 keeps the share of a third
    assert holm_families([[0.02, 0.3], [0.001]])[0] == pytest.approx([0.04, 0.3])
    assert holm_families([[0.02, 0.3], [0.001], [0.3]])[0] == pytest.approx([0.08, 0.6])
    assert holm_families([[0.02], [0.3]]) == [pytest.approx([0.04]), pytest.approx([0.3])]


def test_what_another_family_finds_raises_no_p_value():
    rng = np.random.default_rng(4)
    for _ in range(200):
        own, other = rng.random(3), rng.random(4)
        lower = other * rng.random(4)
        assert all(
            after <= before
            for before, after in zip(holm_families([own, other])[0], holm_families([own, lower])[0], strict=True)
        )


@pytest.mark.parametrize("true_families", [0, 7, 14])
def test_all_families_together_keep_the_level_whatever_else_is_true(true_families):
    """45 comparisons in 5 cases and 3 kinds; some families are found for sure, others have one difference of three."""
    rng = np.random.default_rng(5)
    reports = 4000
    alarms = 0
    for _ in range(reports):
        p = rng.random((15, 3))
        p[:true_families] *= 1e-9
        p[true_families:, 0] *= 1e-9 if true_families % 2 else 1.0
        adjusted = holm_families(p)
        alarms += min(min(family[1:]) for family in adjusted[true_families:]) <= 0.05
    limit = 0.05 + 1.645 * math.sqrt(0.05 * 0.95 / reports)
    assert alarms / reports <= limit
    assert alarms / reports >= 0.02
