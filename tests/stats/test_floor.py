from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.floor import UNMEASURED_FLOOR, aa_floor
from phasewise.stats.ratio import Method, RatioEstimate, make_estimate
from phasewise.stats.sets import estimate_ratio


def control(effect: float, *, df: float = 16, method: Method = "pooled-sets") -> RatioEstimate:
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
