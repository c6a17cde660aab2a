from __future__ import annotations

import math

import numpy as np
import pytest

from phasewise.stats.bimodal import find_modes, split_modes
from phasewise.stats.simulate import Noise, simulate_rounds

SIZES = [9, 12, 18, 36, 120]


def two_states(rng: np.random.Generator, n: int, *, apart: float, noise: float, share: float = 0.5) -> np.ndarray:
    upper = np.arange(n) < round(share * n)
    return rng.normal(0.0, noise, n) + apart * rng.permutation(upper)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("law", ["normal", "uniform", "laplace", "exponential"])
def test_one_mode_of_any_shape_raises_at_most_two_per_cent_false_alarms(law, n):
    samples = getattr(np.random.default_rng(n), law)(size=(2000, n))
    alarms = sum(split_modes(sample) is not None for sample in samples)
    # the rates of 10,000 samples are up to 1.2 % for the flat law and 1.3 % for the exponential one
    assert alarms <= 40


def test_a_bar_at_sixty_per_cent_would_ring_on_gaussian_noise():
    """Why the bar is where it is: half a Gaussian each side explains 2/pi of the variance."""
    values = np.sort(np.random.default_rng(0).normal(size=100_000))
    halves = values.reshape(2, -1)
    assert halves.mean(axis=1).var() / values.var() == pytest.approx(2.0 / math.pi, abs=0.01)
    assert split_modes(values) is None


@pytest.mark.parametrize("rounds", [12, 30, 60])
def test_drift_outliers_and_process_effects_are_not_modes(rounds):
    rng = np.random.default_rng(rounds)
    runs = [simulate_rounds(rng, sets=3, rounds=rounds) for _ in range(300)]
    assert sum(find_modes(run) is not None for run in runs) <= 3


def test_sets_that_differ_are_process_spread_and_not_modes():
    rng = np.random.default_rng(1)
    run = rng.normal(0.0, 0.001, (3, 20)) + np.array([[0.0], [0.03], [0.03]])
    assert find_modes(run) is None


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_two_clock_states_are_found_with_both_modes(share):
    rng = np.random.default_rng(2)
    run = [two_states(rng, 20, apart=0.05, noise=0.004, share=share) for _ in range(3)]
    modes = find_modes(run)
    assert modes is not None
    assert modes.low == pytest.approx(0.0, abs=0.004)
    assert modes.high == pytest.approx(0.05, abs=0.004)
    assert modes.high_share == pytest.approx(share, abs=0.06)
    assert modes.explained > 0.9


def test_twelve_rounds_suffice_for_modes_ten_deviations_apart():
    rng = np.random.default_rng(3)
    found = sum(split_modes(two_states(rng, 12, apart=0.04, noise=0.004)) is not None for _ in range(200))
    assert found > 180


def test_an_outlier_does_not_hide_the_modes_and_is_none_itself():
    rng = np.random.default_rng(4)
    states = two_states(rng, 20, apart=0.05, noise=0.004)
    states[5] = 0.9
    assert split_modes(states) is not None
    calm = rng.normal(0.0, 0.004, 20)
    calm[[3, 11]] = 0.9
    assert split_modes(calm) is None


def test_a_minority_of_sets_with_modes_is_not_enough():
    rng = np.random.default_rng(5)
    states, calm = two_states(rng, 20, apart=0.05, noise=0.004), rng.normal(0.0, 0.004, 20)
    assert find_modes([states, calm]) is not None
    assert find_modes([states, calm, calm]) is None


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.2], [0.0] * 4 + [1.0] * 4, [0.3] * 20])
def test_few_or_identical_rounds_have_no_modes(values):
    assert split_modes(values) is None


def test_rounds_at_exactly_two_values_have_two_modes():
    modes = split_modes([0.0, 1.0] * 6)
    assert modes is not None
    assert (modes.low, modes.high, modes.high_share) == (0.0, 1.0, 0.5)
    assert modes.explained == pytest.approx(1.0)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="modes"):
        find_modes([[0.1] * 10, [math.nan] * 10])


def test_no_noise_at_all_is_no_reason_to_alarm():
    still = Noise(white=0.0, drift=0.0, outlier_share=0.0, process=0.004)
    assert find_modes(simulate_rounds(np.random.default_rng(6), sets=3, rounds=12, noise=still)) is None
