"""Honest programs that look suspicious pass: static buffers, thread pools, consumed inputs, a compiler's whole number of versions, optimizers that start empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.records.validate import Outcome
from phasewise.validate.case import validate_case
from plans import make_baseline, make_plan

HERE = Path(__file__).parent


@pytest.mark.parametrize("form", ["plain", "static", "in-place", "threads", "versions"])
def test_a_program_that_only_looks_suspicious_passes(form):
    baseline = validate_case(make_baseline("honest.py", HERE), "main", HERE)
    record = validate_case(make_plan("honest.py", HERE, switches={"form": form}), "main", HERE, baseline=baseline)
    assert record.outcome is Outcome.PASS, record.message
    assert {guard.outcome for guard in record.guards} == {Outcome.PASS}


@pytest.mark.parametrize("fused", [False, True])
def test_training_with_an_optimizer_passes_with_its_gradients_and_its_checks(fused):
    checks = ("resume", "second-call", "bitwise-repeatable", "finite")
    plan = make_plan("honest_training.py", HERE, switches={"fused": fused}, checks=checks)
    record = validate_case(plan, "train-step", HERE)
    assert record.outcome is Outcome.PASS, record.message
    kinds = {error.kind: error.name for error in record.errors}
    assert kinds.keys() == {"output", "state", "gradient"}
    assert len([error for error in record.errors if error.kind == "output"]) == 4
    assert [check.outcome for check in record.checks] == [Outcome.PASS] * 4
