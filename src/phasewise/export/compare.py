"""How far the outputs of an export lie from those of the eager module."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from phasewise.records.plan import Allowance
from phasewise.records.validate import Outcome, TensorError
from phasewise.tensors import Difference, difference


def compare_outputs(
    outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], allowance: Allowance, step: int
) -> list[TensorError]:
    """One TensorError for each name of `expected`, in its order; `step` is the index of the batch."""
    return [_compare(name, outputs.get(name), array, allowance, step) for name, array in expected.items()]


def _compare(name: str, found: np.ndarray | None, wanted: np.ndarray, allowance: Allowance, step: int) -> TensorError:
    if found is None:
        gap = Difference(elements=wanted.size, problem="the export has no such output")
    elif found.dtype != wanted.dtype:
        gap = Difference(
            elements=wanted.size, problem=f"the export's dtype is {found.dtype}, the module's {wanted.dtype}"
        )
    else:
        gap = difference(_tensor(found), _tensor(wanted), rtol=allowance.rtol, atol=allowance.atol)
    message = "" if gap.within else gap.problem or "the export lies outside the tier"
    return TensorError(
        kind="output", name=name, step=step, elements=gap.elements, max_abs=gap.max_abs, relative=gap.relative,
        worst=gap.worst, where=gap.where, outcome=Outcome.PASS if gap.within else Outcome.FAIL, message=message,
    )  # fmt: skip


def _tensor(array: np.ndarray) -> torch.Tensor:
    # a zero-dimensional result of NumPy may be a scalar, and torch takes arrays only
    return torch.from_numpy(np.array(array))
