"""Errors are judged by the tier, by the baseline's own error, and by whether they say anything at all."""

from __future__ import annotations

import pytest
import torch

from phasewise.judge.compare import BASELINE_FLOOR, degenerate, judge, judge_all
from phasewise.records.plan import Allowance
from phasewise.records.validate import Outcome

ALLOWANCE = Allowance(rtol=1e-4, atol=1e-5, times_baseline=8, unit="eV")


def one(value, reference, allowance=ALLOWANCE, baseline=None, kind="output", name="y"):
    value, reference = torch.tensor(value, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64)
    return judge(kind, name, 0, value, reference, allowance, baseline)


def test_an_error_within_the_tier_passes():
    found = one([1.00005, 2.0], [1.0, 2.0])
    assert found.outcome is Outcome.PASS
    assert found.worst == pytest.approx(5e-5 / 1.1e-4)
    assert found.message == ""


def test_an_error_outside_the_tier_says_where_and_how_much_in_the_workloads_unit():
    found = one([1.0, 2.5], [1.0, 2.0])
    assert found.outcome is Outcome.FAIL
    assert found.message.startswith("at [1] it is off")
    assert "largest error 0.5 eV" in found.message


def test_an_error_far_above_the_baselines_own_fails_inside_the_tier():
    baseline = one([1.000002, 2.0], [1.0, 2.0])
    assert one([1.000012, 2.0], [1.0, 2.0], baseline=baseline).outcome is Outcome.PASS
    found = one([1.00005, 2.0], [1.0, 2.0], baseline=baseline)
    assert found.outcome is Outcome.FAIL
    assert found.times_baseline == pytest.approx(25)


def test_an_exact_baseline_still_allows_float32_rounding():
    exact = one([1.0, 2.0], [1.0, 2.0])
    rounding = BASELINE_FLOOR / 2
    assert one([1.0 + rounding, 2.0], [1.0, 2.0], baseline=exact).outcome is Outcome.PASS
    assert one([1.0 + 40 * BASELINE_FLOOR, 2.0], [1.0, 2.0], baseline=exact).outcome is Outcome.FAIL


def test_an_error_that_the_author_calls_nothing_is_not_compared_with_the_baselines():
    exact = one([0.0, 0.0], [1e-12, 0.0])
    found = one([5e-8, 0.0], [1e-12, 0.0], baseline=exact)
    assert found.times_baseline > ALLOWANCE.times_baseline
    assert found.outcome is Outcome.PASS


def test_garbage_below_atol_is_caught_by_the_baselines_error():
    reference = [3e-6, -2e-6, 5e-6]
    baseline = one([value * (1 + 1e-7) for value in reference], reference)
    found = one([-1e-6, 4e-6, 2e-6], reference, baseline=baseline)
    assert found.worst < 1
    assert found.outcome is Outcome.FAIL


def test_something_small_below_a_wide_atol_is_no_result():
    # a softmax over many columns in half precision: all of it lies below the relaxed tier's atol
    relaxed = Allowance(rtol=2e-2, atol=2e-3, times_baseline=1e6)
    right = [5e-4, 1e-6, 3e-6, 2e-6]
    baseline = one([1.002 * each for each in right], right, relaxed)
    assert one([1.02 * each for each in right], right, relaxed, baseline).outcome is Outcome.PASS
    other = one([1e-7, -2e-7, 3e-7, 1e-7], right, relaxed, baseline)
    assert other.outcome is Outcome.FAIL and "does not follow the reference" in other.message
    # a baseline that is off by as much, and what the author calls nothing
    rough = one([8e-4, 1e-6, 3e-6, 2e-6], right, relaxed)
    assert one([1e-4, 1e-6, 3e-6, 2e-6], right, relaxed, rough).outcome is Outcome.PASS
    nothing = one([1.002e-6, 1e-6], [1e-6, 1e-6], relaxed)
    assert one([1e-7, 2e-7], [1e-6, 1e-6], relaxed, nothing).outcome is Outcome.PASS


def test_zeros_below_atol_are_refused():
    assert "are zero" in one([0.0, 0.0], [2e-6, -3e-6]).message
    assert "are zero" in one(0.0, 5e-6).message


def test_an_atol_counts_up_to_a_tenth_of_an_outputs_largest_value():
    wide = Allowance(rtol=0.0, atol=10.0, times_baseline=1e9)
    assert one([2.19, 1.0], [2.0, 1.0], wide).outcome is Outcome.PASS
    found = one([2.21, 1.0], [2.0, 1.0], wide)
    assert found.outcome is Outcome.FAIL
    assert "atol 0.2)" in found.message
    # no scale to take a part of: an error that an output tells of itself
    assert one([9.0], [0.0], wide).outcome is Outcome.PASS
    # entries of a state have scales of their own
    assert one([2.21, 1.0], [2.0, 1.0], wide, kind="state").outcome is Outcome.PASS


def test_an_atol_that_nobody_widened_is_not_capped():
    usual = Allowance(rtol=0.0, atol=2e-3, times_baseline=1e9)
    assert one([3e-3, 0.0], [2e-3, 0.0], usual).outcome is Outcome.PASS


def test_zeros_for_rounding_noise_are_no_fault():
    assert one([0.0, 0.0], [1e-17, -2e-17]).outcome is Outcome.PASS
    assert one(0.0, 0.0).outcome is Outcome.PASS


def test_a_constant_where_the_reference_varies_is_refused():
    assert "are the same" in one([2e-6, 2e-6], [1e-6, 3e-6]).message
    assert one([2.0, 2.0], [2.0, 2.0 + 1e-12]).outcome is Outcome.PASS


def test_a_constant_complex_tensor_is_noticed():
    value, reference = torch.tensor([1j, 1j]), torch.tensor([1j, -1j], dtype=torch.complex128)
    assert "are the same" in degenerate(value, reference, ALLOWANCE)


def test_integers_are_never_degenerate():
    assert degenerate(torch.tensor([0, 0]), torch.tensor([0, 1]), ALLOWANCE) == ""


def test_missing_and_extra_outputs_fail_with_a_sentence():
    tensor = torch.ones(2, dtype=torch.float64)
    missing, extra = judge_all("output", 0, {"z": tensor}, {"y": tensor}, ALLOWANCE, {})
    assert (missing.name, missing.outcome, missing.message) == ("y", Outcome.FAIL, "it is missing; there is z")
    assert (extra.name, extra.outcome) == ("z", Outcome.FAIL)
    assert "the reference has no such name; it has y" in extra.message


def test_a_state_may_hold_more_than_the_references_but_not_less():
    tensor = torch.ones(2, dtype=torch.float64)
    (found,) = judge_all("state", 2, {"w": tensor, "scaler": tensor}, {"w": tensor}, ALLOWANCE, {})
    assert found.outcome is Outcome.PASS
    (found,) = judge_all("state", 2, {"scaler": tensor}, {"w": tensor}, ALLOWANCE, {})
    assert found.outcome is Outcome.FAIL


def test_gradients_are_told_apart_from_the_state():
    tensor = torch.ones(2, dtype=torch.float64)
    found = judge_all("state", 2, {"grad/w": tensor, "w": tensor}, {"grad/w": tensor, "w": tensor}, ALLOWANCE, {})
    assert [error.kind for error in found] == ["gradient", "state"]


def test_the_baselines_error_is_looked_up_by_kind_name_and_step():
    value, reference = torch.tensor([1.00001]), torch.tensor([1.0], dtype=torch.float64)
    known = judge("state", "grad/w", 2, torch.tensor([1.00001]), reference, ALLOWANCE, None)
    (found,) = judge_all(
        "state", 2, {"grad/w": value}, {"grad/w": reference}, ALLOWANCE, {("gradient", "grad/w", 2): known}
    )
    assert found.times_baseline == pytest.approx(1)
