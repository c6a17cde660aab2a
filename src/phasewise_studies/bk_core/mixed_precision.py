"""The user's document's mixed precision: the recursion in complex64, the last division in complex128, and a switch.

The document calls the two "FP16" and "FP32". Its switch looked at gradients; what decides here is how little is forgotten:
below ADAPTIVE_BELOW the recursion, too, is made in complex128.
"""

from __future__ import annotations

import torch

from phasewise_studies.bk_core import reference

# |Im z| under which rounding errors of complex64 live for tens of positions
ADAPTIVE_BELOW = 0.1
# the document's criterion, on 100 random inputs
WORST_ERROR = 1e-4


def diagonal_mixed(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex, *, causal: bool = False
) -> torch.Tensor:
    """diag((H - z)^-1) as complex64; operands as in `reference`, a number z."""
    dtype = torch.float64 if abs(z.imag) < ADAPTIVE_BELOW else torch.float32
    alpha, k = reference.shift_and_couple(a.to(dtype), b.to(dtype), c.to(dtype), z)
    if a.numel() == 0:
        return alpha.to(torch.complex64)
    divisor = reference.left_pivots(alpha, k).to(torch.complex128)
    if not causal:
        divisor = divisor + reference.left_pivots(alpha.flip(1), k.flip(1)).flip(1).to(torch.complex128) - alpha
    return (1 / divisor).to(torch.complex64)
