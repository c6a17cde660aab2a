"""The user's document, cell 4: the last layer's bias and softplus in one Triton kernel. Measured, not used (checks/proposals.py)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.spectral_node.metric import FLOOR

BLOCK = 1024


@triton.jit
def softplus_forward_kernel(g_out, z, bias, count, floor, BLOCK: tl.constexpr):
    """g_out (count,) = ln(1 + e^s) + floor with s = z + bias, as max(s, 0) + ln(1 + e^-|s|): nothing overflows.

    One axis: the points.
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    s = tl.load(z + at, mask=inside, other=0.0) + tl.load(bias)
    tl.store(g_out + at, tl.maximum(s, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(s))) + floor, mask=inside)


def softplus_fused(z: Tensor, bias: Tensor) -> Tensor:
    """softplus(z + bias) + FLOOR by one kernel; z contiguous float32 of any shape, bias a scalar."""
    g = torch.empty_like(z)
    if z.numel():
        softplus_forward_kernel[(triton.cdiv(z.numel(), BLOCK),)](g, z, bias, z.numel(), FLOOR, BLOCK=BLOCK)
    return g
