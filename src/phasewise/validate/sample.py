"""A seeded sample of items, for cases whose float64 reference is too much to compute whole."""

from __future__ import annotations

from collections.abc import Callable

import torch

from phasewise.records.plan import PlannedCase
from phasewise.validate.trajectory import Named

# 256 items see an error in 1 % of the items with probability 1 - 0.99^256 = 0.92
SMALLEST = 256


def choose_items(planned: PlannedCase, outputs: Callable[[], Named], seed: int) -> torch.Tensor | None:
    """Sorted indices of the items to hold against the reference; None where all are.

    `outputs` gives the outputs of one step, which have the items along their first dimension; it is asked only if needed.
    """
    if planned.sample_items is None:
        return None
    items = min((len(tensor) for tensor in outputs().values() if tensor.dim()), default=0)
    count = max(SMALLEST, planned.sample_items)
    if count >= items:
        return None
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(items, generator=generator)[:count].sort().values


def take(values: Named, references: Named, items: torch.Tensor | None) -> Named:
    """The sampled rows of each tensor whose reference holds the sample only; other tensors as they are."""
    if items is None:
        return values
    return {name: _rows(tensor, references.get(name), items) for name, tensor in values.items()}


def _rows(value: torch.Tensor, reference: torch.Tensor | None, items: torch.Tensor) -> torch.Tensor:
    if reference is None or value.shape == reference.shape or value.dim() == 0 or reference.dim() == 0:
        return value
    # too few rows stay as they are: the comparison then says that the shapes differ
    if len(reference) != len(items) or len(value) <= int(items[-1]):
        return value
    return value[items]
