from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.between import SetLevel, learn_between, measure_level
from phasewise.stats.floor import UNMEASURED_FLOOR, aa_floor, noise_limit
from phasewise.stats.ratio import Method, RatioEstimate, make_estimate
from phasewise.stats.sets import estimate_ratio
from phasewise.stats.verdict import decide_status


def control(effect: float, *, df: float = 16, method: Method = "moderated") -> RatioEstimate:
    return make_estimate(
        effect, 0.002, df, level=0.95, method=method, rounds=36, sets=3, within_sd=0.006, between_sd=0.004
    )


def test_controls_that_agree_with_one_set_the_floor_at_their_half_width():
    calm = control(0.001)
    assert aa_floor([calm]) == pytest.approx(calm.half_width)
    assert aa_floor([calm, control(-0.002), control(0.0)]) == pytest.approx(calm.half_width)


def test_a_control_that_leaves_out_one_stretches_the_floor():
    biased = control(0.008)
    assert biased.low > 1.0
    assert aa_floor([biased]) == pytest.approx(4.0 * biased.half_width)


def test_several_small_disagreements_add_up():
    controls = [control(sign * 0.0038) for sign in (1, -1, 1, -1, 1, -1)]
    assert all(ratio.low < 1.0 < ratio.high for ratio in controls)
    assert aa_floor(controls) == pytest.approx(1.9 * controls[0].half_width)


def test_the_limit_is_that_of_as_many_sets_as_the_claim_has():
    calm, biased = control(0.001), control(0.008)
    assert aa_floor([calm], sets=12) == pytest.approx(calm.half_width / 2)
    assert aa_floor([calm], sets=1) == pytest.approx(calm.half_width * math.sqrt(3))
    # a bias is not less in the mean of more sets
    assert aa_floor([biased], sets=12) == pytest.approx(2.0 * biased.half_width)
    assert aa_floor([biased], sets=300) == pytest.approx(biased.log_estimate)


def test_a_control_of_one_set_tells_nothing_alone_and_by_the_others_what_they_do():
    rng = np.random.default_rng(0)
    taken = [(b + rng.normal(0.0, 0.002, (3, 12))).tolist() for b in rng.normal(0.0, 0.005, (8, 3, 1))]
    own, *others = taken
    lone = own[:1]
    # 21 % between two processes of one program: what it showed times Student's t of one degree of freedom is 1354 %
    odd = estimate_ratio([[0.2107 + value for value in lone[0]]])
    assert aa_floor([odd]) is None and noise_limit(level(sets=1), [(level(sets=1), odd)]) is None
    levels = [measure_level(sets) for sets in (lone, *others)]
    prior = learn_between(levels[0], levels)
    taught = estimate_ratio(lone, between=prior)
    expected = math.sqrt(prior.variance + levels[0].within / 3)
    limit = noise_limit(levels[1], [(levels[0], taught)])
    assert limit == pytest.approx(taught.half_width / math.sqrt(3))
    assert 1.9 * expected / math.sqrt(3) < limit < 2.8 * expected / math.sqrt(3)


def test_few_comparisons_exceed_the_limit_of_a_control_of_one_set():
    rng = np.random.default_rng(1)
    exceeded = []
    for _ in range(150):
        taken = [(b + rng.normal(0.0, 0.002, (3, 12))).tolist() for b in rng.normal(0.0, 0.005, (9, 3, 1))]
        taken[0] = taken[0][:1]
        levels = [measure_level(sets) for sets in taken]
        ratios = [
            estimate_ratio(sets, between=learn_between(own, levels)) for sets, own in zip(taken, levels, strict=True)
        ]
        limits = [noise_limit(own, [(levels[0], ratios[0])]) for own in levels[1:]]
        exceeded += [abs(one.log_estimate) > limit for one, limit in zip(ratios[1:], limits, strict=True) if limit]
    assert len(exceeded) > 1000 and 0.02 < np.mean(exceeded) < 0.06


def test_a_control_without_an_interval_tells_nothing():
    assert aa_floor([estimate_ratio([[0.01]])]) is None
    assert aa_floor([control(0.001), control(0.0, df=0)]) == aa_floor([control(0.001)])


def test_controls_without_noise_are_judged_by_what_they_showed():
    assert aa_floor([estimate_ratio([[0.0] * 5] * 3)]) == 0.0
    assert aa_floor([estimate_ratio([[0.01] * 5] * 3)]) == pytest.approx(0.127, abs=0.001)


def test_without_a_control_there_is_no_floor_to_name_and_another_holds():
    assert aa_floor([]) is None
    assert math.exp(UNMEASURED_FLOOR) == pytest.approx(1.10)


def level(*, within: float = 0.002, scatter: float = 0.004, sets: int = 3) -> SetLevel:
    return SetLevel(sets=sets, mean=0.0, scatter=scatter**2, within=within**2, within_df=21)


def test_a_limit_comes_from_controls_as_noisy_as_the_comparison():
    quiet, noisy = (level(), control(0.001)), (level(scatter=0.4, within=0.2), control(0.9))
    assert noise_limit(level(), [quiet, noisy]) == aa_floor([quiet[1]])
    assert noise_limit(level(within=0.15, scatter=0.3), [quiet, noisy]) == aa_floor([noisy[1]])
    # rounds alike, and processes that do not scatter alike
    assert noise_limit(level(scatter=0.1), [quiet]) == 0.0
    assert noise_limit(level(within=0.02), [quiet]) == 0.0
    # of one set nothing is known but its rounds
    assert noise_limit(level(sets=1, scatter=math.nan), [quiet]) == aa_floor([quiet[1]], sets=1)


def test_without_any_control_there_is_no_limit_to_name():
    assert noise_limit(level(), []) is None
    assert noise_limit(level(), [(level(), control(0.0, df=0))]) is None


def test_a_noisy_baseline_hides_no_gain_of_quiet_arms_and_raises_no_alarm():
    """Quiet comparisons beside a control of their own and a loud one: what the root of both squares made 93 %."""
    rng = np.random.default_rng(2)
    found, alarms, hidden, runs = 0, 0, 0, 300

    def sets(between: float, gain: float = 0.0) -> list[list[float]]:
        return (gain + rng.normal(0.0, between, (3, 1)) + rng.normal(0.0, between, (3, 12))).tolist()

    for _ in range(runs):
        own, loud, same, faster = sets(0.003), sets(0.4), sets(0.003), sets(0.003, gain=0.1)
        levels = [measure_level(one) for one in (own, loud, same, faster)]
        ratios = [
            estimate_ratio(one, between=learn_between(level, levels))
            for one, level in zip((own, loud, same, faster), levels, strict=True)
        ]
        controls = list(zip(levels[:2], ratios[:2], strict=True))
        statuses = [decide_status(ratios[i], aa_floor=noise_limit(levels[i], controls)).status for i in (2, 3)]
        alarms += statuses[0] in ("FASTER", "SLOWER")
        found += statuses[1] == "FASTER"
        hidden += aa_floor(ratios[:2]) > ratios[3].log_estimate
    assert found / runs > 0.97
    assert hidden / runs > 0.9
    assert alarms / runs < 0.06
