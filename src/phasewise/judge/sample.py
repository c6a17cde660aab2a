"""A seeded sample of items, for cases whose float64 reference is too much to compute whole."""

from __future__ import annotations

import torch

from phasewise.judge.trajectory import Named

# 256 items see an error in 1 % of the items with probability 1 - 0.99^256 = 0.92
SMALLEST = 256


def choose_items(wanted: int | None, rows: int, seed: int) -> torch.Tensor | None:
    """Sorted indices of the items that the reference covers, `wanted` of `rows`; None where it covers all."""
    if wanted is None or max(SMALLEST, wanted) >= rows:
        return None
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(rows, generator=generator)[: max(SMALLEST, wanted)].sort().values


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
