from __future__ import annotations

import numpy as np

from phasewise.export.compare import compare_outputs
from phasewise.records.plan import Allowance
from phasewise.records.validate import Outcome

ALLOWANCE = Allowance(rtol=1e-4, atol=1e-5)


def test_equal_outputs_pass_and_the_largest_share_of_the_tier_is_named() -> None:
    wanted = {"out": np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32), "sum": np.float32(10)}
    found = {"out": wanted["out"] + np.array([[0, 0], [1e-4, 0]], dtype=np.float32), "sum": np.float32(10)}
    out, total = compare_outputs(found, wanted, ALLOWANCE, 2)
    assert (out.name, out.step, out.outcome, out.where) == ("out", 2, Outcome.PASS, (1, 0))
    assert 0.2 < out.worst < 0.4
    assert (total.outcome, total.max_abs, total.elements) == (Outcome.PASS, 0.0, 1)


def test_outputs_outside_the_tier_of_another_shape_dtype_or_absent_fail_with_a_sentence() -> None:
    wanted = {name: np.ones(3, dtype=np.float32) for name in ("far", "shape", "dtype", "absent", "nan")}
    found = {
        "far": wanted["far"] * 1.1,
        "shape": np.ones(4, dtype=np.float32),
        "dtype": np.ones(3, dtype=np.float64),
        "nan": np.array([1, np.nan, 1], dtype=np.float32),
    }
    found["far"] = found["far"].astype(np.float32)
    errors = {error.name: error for error in compare_outputs(found, wanted, ALLOWANCE, 0)}
    assert {error.outcome for error in errors.values()} == {Outcome.FAIL}
    assert errors["far"].message == "the export lies outside the tier"
    assert "(4,)" in errors["shape"].message
    assert errors["dtype"].message == "the export's dtype is float64, the module's float32"
    assert errors["absent"].message == "the export has no such output"
    assert "not finite" in errors["nan"].message
