"""Judge named tensors against their reference: the tier, the baseline's own error, and outputs that say nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
import torch

from phasewise.model.workload import DEFAULT_TIERS
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, Outcome, TensorError
from phasewise.tensors import Difference, category, difference

Errors = Mapping[tuple[str, str, int], TensorError]

FLOAT32_EPSILON = 2.0**-23
# a baseline that happens to be exact must not make all others fail: IEEE 754 binary32 rounds each operation by half an
# epsilon, and a handful of them in another order may differ by about four
BASELINE_FLOOR = 4 * FLOAT32_EPSILON
# a hundredth of what the author calls zero (atol) is nothing: neither a signal that an output has to follow, nor an error
# that is worth a comparison with the baseline's
NEGLIGIBLE = 1e-2
# float32 noise on a constant: a spread below this many epsilons of the largest value is rounding
NOISE = 64 * FLOAT32_EPSILON
# an output that is off by this part of its whole norm is another one, even where every value lies below what the tier calls zero; unless the
# baseline is off by nearly as much
MOST_OFF = 0.5
TIMES_AS_OFF = 4
# an absolute tolerance counts up to this part of an output's largest value: with more, one that leaves out a part would pass
MOST_ABSOLUTE = 0.1
# an absolute tolerance up to that of the widest tier is no author's choice, and left alone
USUAL_ABSOLUTE = max(tier.atol for tier in DEFAULT_TIERS.values())


def judge_all(
    kind: Literal["output", "state"],
    step: int,
    values: Mapping[str, torch.Tensor],
    references: Mapping[str, torch.Tensor],
    allowance: Allowance,
    baseline: Errors,
) -> tuple[TensorError, ...]:
    """One error for every name of the reference, and one for every output that the reference lacks.

    A state may hold more than the reference's: a gradient scaler or a sampler that only the variant needs.
    """
    errors = []
    for name, reference in references.items():
        if name not in values:
            errors.append(_wrong(kind, name, step, f"it is missing; there is {_listed(values)}"))
        else:
            known = baseline.get((kind_of(kind, name), name, step))
            errors.append(judge(kind, name, step, values[name], reference, allowance, known))
    if kind == "output":
        extra = [name for name in values if name not in references]
        errors += [
            _wrong(kind, name, step, f"the reference has no such name; it has {_listed(references)}") for name in extra
        ]
    return tuple(errors)


def judge(
    kind: Literal["output", "state"],
    name: str,
    step: int,
    value: torch.Tensor,
    reference: torch.Tensor,
    allowance: Allowance,
    baseline: TensorError | None,
) -> TensorError:
    """Judge one tensor: elementwise against the tier, in the L2 norm against the baseline's own error."""
    if kind == "output":
        allowance = cap(allowance, reference)
    found = difference(value, reference, rtol=allowance.rtol, atol=allowance.atol)
    times = times_baseline(found, baseline)
    message = (
        found.problem
        or (degenerate(value, reference, allowance) if found.elements else "")
        or _over_tier(found, allowance)
        or _over_baseline(found, times, allowance)
        or (_over_signal(found, reference, allowance, baseline) if kind == "output" else "")
    )
    return TensorError(
        kind=kind_of(kind, name),
        name=name,
        step=step,
        elements=found.elements,
        max_abs=found.max_abs,
        relative=found.relative,
        worst=found.worst,
        where=found.where,
        times_baseline=times,
        outcome=Outcome.FAIL if message else Outcome.PASS,
        message=message,
    )


def cap(allowance: Allowance, reference: torch.Tensor) -> Allowance:
    """The allowance with `atol` cut to what an output of this size can exceed; a reference of zeros has no size, and cuts nothing."""
    if category(reference) not in ("float", "complex") or allowance.atol <= USUAL_ABSOLUTE:
        return allowance
    largest = _finite_max(reference.detach().abs())
    if largest == 0:
        return allowance
    return msgspec.structs.replace(allowance, atol=min(allowance.atol, max(USUAL_ABSOLUTE, MOST_ABSOLUTE * largest)))


def kind_of(kind: str, name: str) -> str:
    """Entries of the state that are named `grad/...` are gradients."""
    return "gradient" if kind == "state" and name.startswith("grad/") else kind


def times_baseline(found: Difference, baseline: TensorError | None) -> float | None:
    """Relative error over the baseline's; None where either is unknown."""
    if baseline is None or baseline.relative is None or found.relative is None:
        return None
    return found.relative / max(baseline.relative, BASELINE_FLOOR)


def degenerate(value: torch.Tensor, reference: torch.Tensor, allowance: Allowance) -> str:
    """A sentence if `value` is all zero or constant where the reference is not, whatever the tolerance; else ""."""
    if category(reference) not in ("float", "complex") or value.shape != reference.shape:
        return ""
    value, reference = value.detach().cpu(), reference.detach().cpu()
    first = value.flatten()[0]
    if bool((value != first).any()):
        return ""
    largest = _finite_max(reference.abs())
    if first == 0 and largest > NEGLIGIBLE * allowance.atol:
        return f"all {value.numel()} values are zero, the reference reaches {largest:.3g}"
    spread = _finite_max((reference - reference.flatten()[0]).abs())
    if spread > signal(largest, allowance):
        return f"all {value.numel()} values are the same, the reference's differ by {spread:.3g}"
    return ""


def signal(largest: float, allowance: Allowance) -> float:
    """The smallest change of a tensor with that largest value which a result has to follow."""
    return max(NEGLIGIBLE * allowance.atol, NOISE * largest, 2 * allowance.rtol * largest)


def by_tensor(validation: CaseValidation | None) -> Errors:
    """The errors of a baseline by kind, name and step; empty where it has none."""
    return {} if validation is None else {(error.kind, error.name, error.step): error for error in validation.errors}


def _over_tier(found: Difference, allowance: Allowance) -> str:
    if found.within:
        return ""
    times = "infinitely often" if found.worst is None else f"{found.worst:.4g} times"
    unit = f" {allowance.unit}" if allowance.unit else ""
    error = "infinite" if found.max_abs is None else f"{found.max_abs:.3g}{unit}"
    return (
        f"at {list(found.where)} it is off {times} what the tier allows (rtol {allowance.rtol:g}, "
        f"atol {allowance.atol:g}{unit}); largest error {error}"
    )


def _over_baseline(found: Difference, times: float | None, allowance: Allowance) -> str:
    if times is None or times <= allowance.times_baseline or found.rms <= NEGLIGIBLE * allowance.atol:
        return ""
    return (
        f"relative error {found.relative:.3g} is {times:.3g} times the baseline's own, "
        f"at most {allowance.times_baseline:g} times is allowed"
    )


def _over_signal(found: Difference, reference: torch.Tensor, allowance: Allowance, baseline: TensorError | None) -> str:
    if baseline is None or baseline.relative is None or found.relative is None:
        return ""
    if found.relative <= max(MOST_OFF, TIMES_AS_OFF * baseline.relative):
        return ""
    if _finite_max(reference.detach().abs()) <= NEGLIGIBLE * allowance.atol:
        return ""
    return f"relative error {found.relative:.3g}: it does not follow the reference, from which the baseline is off by {baseline.relative:.3g}"


def _wrong(kind: str, name: str, step: int, message: str) -> TensorError:
    return TensorError(
        kind=kind_of(kind, name), name=name, step=step, elements=0, max_abs=None, relative=None, worst=None,
        outcome=Outcome.FAIL, message=message,
    )  # fmt: skip


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _finite_max(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.max()) if finite.numel() else 0.0
