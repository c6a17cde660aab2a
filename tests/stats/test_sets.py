from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from phasewise.stats.between import BetweenVariance
from phasewise.stats.looks import StopRules
from phasewise.stats.ratio import p_beyond, p_value
from phasewise.stats.sets import estimate_ratio
from phasewise.stats.trimmed import trimmed_mean, yuen_interval

PRIOR = BetweenVariance(variance=0.004**2, df=16)


def sets_of(offsets: list[float], *, within: float = 0.002, rounds: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, within, (len(offsets), rounds)) + np.array(offsets)[:, None]


def test_one_set_gets_yuens_interval_and_says_so():
    rounds = sets_of([0.05])
    ratio = estimate_ratio(rounds)
    low, high = yuen_interval(rounds[0])
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (ratio.method, ratio.sets, ratio.rounds, ratio.between_sd) == ("one-set", 1, 12, None)


def test_three_sets_alone_get_students_t_over_the_sets():
    data = sets_of([-0.004, 0.001, 0.006])
    ratio = estimate_ratio(data)
    student = stats.ttest_1samp([trimmed_mean(rounds).estimate for rounds in data], 0.0).confidence_interval(0.95)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((student.low, student.high))
    assert (ratio.method, ratio.df, ratio.rounds) == ("own-sets", 2, 36)


def test_tight_rounds_do_not_hide_sets_that_differ():
    data = sets_of([-0.004, 0.0, 0.004], within=0.0005)
    ratio = estimate_ratio(data)
    # 0.4 % between sets: 4.30 * 0.4 % / sqrt(3)
    assert ratio.half_width == pytest.approx(4.303 * 0.004 / math.sqrt(3), rel=0.1)
    assert ratio.between_sd == pytest.approx(0.004, rel=0.1)
    assert ratio.within_sd == pytest.approx(0.0005, rel=0.4)


def test_sets_that_agree_by_luck_are_no_better_than_their_rounds():
    rounds = np.random.default_rng(1).normal(0.0, 0.01, 12)
    ratio = estimate_ratio([rounds, rounds, rounds])
    centre = trimmed_mean(rounds)
    by_rounds = centre.standard_error / math.sqrt(3)
    assert ratio.half_width == pytest.approx(stats.t.ppf(0.975, 21) * by_rounds)
    # and yet small p-values are those of three sets
    assert ratio.df == 2
    assert p_value(replace(ratio, estimate=math.exp(6.0 * by_rounds))) > 0.005 > 100 * 2 * stats.t.sf(6.0, 21)


def test_what_the_run_expects_narrows_three_sets():
    data = sets_of([-0.004, 0.001, 0.006])
    alone, moderated = estimate_ratio(data), estimate_ratio(data, between=PRIOR)
    assert (moderated.method, moderated.df) == ("moderated", 18)
    assert moderated.estimate == alone.estimate
    centres = [trimmed_mean(rounds) for rounds in data]
    within = np.mean([centre.variance for centre in centres])
    seen = np.var([centre.estimate for centre in centres], ddof=1)
    variance = (16 * (0.004**2 + within) + 2 * seen) / 18
    assert moderated.standard_error == pytest.approx(math.sqrt(variance / 3))
    assert moderated.between_sd == pytest.approx(math.sqrt(variance - within))
    assert moderated.half_width < alone.half_width


def test_sets_that_scatter_more_than_expected_widen_the_interval_smoothly():
    widths = [estimate_ratio(sets_of([-x, 0.0, x]), between=PRIOR).half_width for x in np.linspace(0.0, 0.05, 26)]
    assert all(later >= earlier for earlier, later in pairwise(widths))
    assert max(np.diff(widths)) < 0.002
    assert widths[-1] > 2.5 * widths[0]


def test_a_prior_that_says_little_leaves_the_sets_alone():
    data = sets_of([0.001, 0.002, 0.003, 0.0])
    little = BetweenVariance(variance=0.004**2, df=1e-9)
    assert estimate_ratio(data, between=little).half_width == pytest.approx(estimate_ratio(data).half_width, rel=1e-3)


def test_no_prior_makes_a_comparison_surer_than_its_rounds():
    data = sets_of([0.0, 0.0, 0.0], within=0.01)
    within = np.mean([trimmed_mean(rounds).variance for rounds in data])
    sure = BetweenVariance(variance=0.0, df=32)
    assert estimate_ratio(data, between=sure).standard_error >= math.sqrt(within / 3)


def test_one_set_with_a_prior_carries_the_noise_between_processes():
    data = sets_of([0.01])
    assert estimate_ratio(data, between=PRIOR).half_width > 2.1 * 0.004 > estimate_ratio(data).half_width


def test_looks_widen_the_interval_less_with_a_prior():
    data = sets_of([-0.004, 0.001, 0.006])
    plain, paid = estimate_ratio(data), estimate_ratio(data, rules=StopRules())
    assert paid.half_width > 1.3 * plain.half_width
    assert paid.level == plain.level == 0.95
    moderated, moderated_paid = (
        estimate_ratio(data, between=PRIOR),
        estimate_ratio(data, between=PRIOR, rules=StopRules()),
    )
    cost_alone = paid.half_width / plain.half_width - 1.0
    cost_moderated = moderated_paid.half_width / moderated.half_width - 1.0
    assert 0.0 < cost_moderated < 0.2 * cost_alone


def test_inverting_all_ratios_inverts_the_estimate():
    data = sets_of([0.01, 0.02, 0.015])
    ratio, inverse = estimate_ratio(data), estimate_ratio(-data)
    assert inverse.estimate == pytest.approx(1.0 / ratio.estimate)
    assert (inverse.low, inverse.high) == pytest.approx((1.0 / ratio.high, 1.0 / ratio.low))


def test_two_sets_alone_have_one_degree_of_freedom():
    ratio = estimate_ratio(sets_of([0.0, 0.01]))
    assert ratio.df == 1
    assert ratio.half_width > 12.7 * 0.3 * 0.01


def test_one_round_has_an_estimate_and_no_bounds():
    ratio = estimate_ratio([[0.1]])
    assert ratio.estimate == pytest.approx(math.exp(0.1))
    assert (ratio.low, ratio.high, ratio.df, ratio.resolution) == (0.0, math.inf, 0, math.inf)
    assert (ratio.within_sd, ratio.between_sd) == (None, None)
    assert p_value(ratio) == 1.0


def test_two_rounds_have_students_bounds():
    ratio = estimate_ratio([[0.1, 0.102]])
    assert ratio.half_width == pytest.approx(12.706 * 0.001, rel=1e-3)


def test_single_rounds_in_several_sets_are_judged_by_their_scatter():
    ratio = estimate_ratio([[0.10], [0.11], [0.12]], between=PRIOR)
    assert (ratio.method, ratio.df, ratio.within_sd) == ("own-sets", 2, None)
    assert ratio.between_sd == pytest.approx(0.01)


@pytest.mark.parametrize("sets", [1, 3])
def test_identical_rounds_give_a_point(sets):
    ratio = estimate_ratio([[0.25] * 12] * sets)
    assert ratio.low == ratio.estimate == ratio.high == pytest.approx(math.exp(0.25))
    assert (ratio.within_sd, ratio.resolution, p_value(ratio)) == (0.0, 0.0, 0.0)
    assert p_value(estimate_ratio([[0.0] * 12] * sets)) == 1.0


def test_huge_outliers_in_every_set_leave_the_estimate():
    data = sets_of([0.01, 0.01, 0.01])
    spoiled = data.copy()
    spoiled[:, ::6] = 50.0
    assert estimate_ratio(spoiled).estimate == pytest.approx(estimate_ratio(data).estimate, abs=0.003)


@pytest.mark.parametrize("sets", [[], [[]], [[0.1, math.nan]], [[0.1], [math.inf]]])
def test_input_without_finite_numbers_is_refused(sets):
    with pytest.raises(ValueError):
        estimate_ratio(sets)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_outside_zero_to_one_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        estimate_ratio([[0.1, 0.2]], level=level)


def test_the_p_value_and_the_interval_agree():
    for shift in np.linspace(0.0, 0.012, 13):
        for rules in (None, StopRules()):
            ratio = estimate_ratio(sets_of([-0.001, 0.001, 0.002]) + shift, between=PRIOR, rules=rules)
            assert (p_value(ratio) < 0.05) == (ratio.low > 1.0 or ratio.high < 1.0)


def test_equivalence_and_the_ninety_per_cent_interval_agree():
    for shift in np.linspace(0.0, 0.012, 13):
        sets = sets_of([-0.001, 0.001, 0.002]) + shift
        ratio, wider = estimate_ratio(sets, between=PRIOR), estimate_ratio(sets, between=PRIOR, level=0.90)
        within = math.log(wider.low) > -0.01 and math.log(wider.high) < 0.01
        assert (p_beyond(ratio, 0.01) < 0.05) == within


def test_looks_cost_an_equivalence_as_much_as_a_difference():
    sets = sets_of([0.0, 0.001, 0.002])
    free, paid = estimate_ratio(sets), estimate_ratio(sets, rules=StopRules())
    assert paid.spent < free.spent
    assert p_beyond(paid, 0.01) / p_beyond(free, 0.01) == pytest.approx(p_value(paid) / p_value(free))


def test_exact_data_are_within_a_margin_or_not():
    assert p_beyond(estimate_ratio([[0.0] * 12] * 3), 0.01) == 0.0
    assert p_beyond(estimate_ratio([[0.02] * 12] * 3), 0.01) == 1.0
    assert p_beyond(estimate_ratio([[0.0]]), 0.01) == 1.0


def test_resolution_is_the_effect_found_in_four_of_five_runs():
    rng = np.random.default_rng(2)
    prior = BetweenVariance(variance=0.004**2, df=1e6)
    ratio = estimate_ratio(sets_of([0.0, 0.0, 0.0], within=1e-5), between=prior)
    effect = math.log1p(ratio.resolution)
    estimates = effect + rng.normal(0.0, 0.004, (4000, 3)).mean(axis=1)
    assert np.mean(np.abs(estimates) > ratio.half_width) == pytest.approx(0.80, abs=0.02)
