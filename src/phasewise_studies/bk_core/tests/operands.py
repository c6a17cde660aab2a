"""Operands for the tests of bk_core."""

from __future__ import annotations

import torch


def draw_operands(
    batch: int, length: int, *, batched: bool = False, seed: int = 0, documented: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """a, b, c in float64, exact in float32: the documented range, or a in [-100, 100] with couplings that differ."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, length - 1) if batched else (length - 1,)
    a, b, c = (torch.rand(s, generator=generator) for s in ((batch, length), shape, shape))
    if documented:
        return (6 * a - 5).double(), (0.75 + 0.5 * b).double(), (0.75 + 0.5 * c).double()
    return (200 * a - 100).double(), (3 * b).double(), (3 * c).double()


def relative_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest pointwise relative error; 0 for nothing, inf if the result is not finite."""
    if exact.numel() == 0:
        return 0.0
    error = ((result - exact).abs() / exact.abs()).max().item()
    return error if error == error else float("inf")
