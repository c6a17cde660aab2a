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


def test_one_control_of_one_set_sets_a_bar_twelve_times_what_it_showed():
    rng = np.random.default_rng(0)
    lone = estimate_ratio([0.005 + rng.normal(0.0, 1e-4, 12)])
    assert aa_floor([lone]) == pytest.approx(12.7062 * lone.log_estimate, rel=1e-4)


def test_the_floor_of_single_sets_holds_for_the_next_single_set():
    rng = np.random.default_rng(1)
    exceeded = 0
    for _ in range(2000):
        *controls, claim = (estimate_ratio([b + rng.normal(0.0, 1e-4, 12)]) for b in rng.normal(0.0, 0.005, 3))
        exceeded += abs(claim.log_estimate) > aa_floor(controls)
    assert 0.03 < exceeded / 2000 < 0.06


def test_a_control_without_an_interval_allows_no_claim():
    assert aa_floor([estimate_ratio([[0.01]])]) == math.inf
    assert aa_floor([control(0.0), control(0.0, df=0)]) == math.inf


def test_controls_without_noise_are_judged_by_what_they_showed():
    assert aa_floor([estimate_ratio([[0.0] * 5] * 3)]) == 0.0
    assert aa_floor([estimate_ratio([[0.01] * 5] * 3)]) == pytest.approx(0.127, abs=0.001)


def test_no_control_is_refused_and_has_a_floor_of_its_own():
    with pytest.raises(ValueError, match="UNMEASURED_FLOOR"):
        aa_floor([])
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
    assert noise_limit(level(sets=1, scatter=math.nan), [quiet]) == aa_floor([quiet[1]])


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
