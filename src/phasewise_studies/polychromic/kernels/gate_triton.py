"""silu(gate) * up, forward and backward, each in one pass over memory. `gate_up` (rows, 2 F) has the gates in its first half.

    a = gate s(gate) up,   s(z) = 1 / (1 + e^-z)
    dgate = da up s (1 + gate (1 - s)),   dup = da gate s

Plain forms, beside the kernels, answer on other devices and in float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.kernels.launching import has_half_kernel

BLOCK, WARPS = 512, 2


@triton.jit
def gate_kernel(a, gate_up, a_stride, gate_up_stride, F, BLOCK: tl.constexpr):
    """BLOCK features of one row: (rows, F / BLOCK) programs."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < F
    gate = tl.load(gate_up + row * gate_up_stride + i, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * gate_up_stride + F + i, mask=inside, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(a + row * a_stride + i, y.to(a.dtype.element_ty), mask=inside)


@triton.jit
def gate_backward_kernel(dgate_up, da, gate_up, dgate_up_stride, da_stride, gate_up_stride, F, BLOCK: tl.constexpr):
    """Both gradients of BLOCK features of one row."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < F
    gate = tl.load(gate_up + row * gate_up_stride + i, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * gate_up_stride + F + i, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(da + row * da_stride + i, mask=inside, other=0.0).to(tl.float32)
    s = 1.0 / (1.0 + tl.exp(-gate))
    dgate = grad * up * s * (1.0 + gate * (1.0 - s))
    into = dgate_up + row * dgate_up_stride + i
    tl.store(into, dgate.to(dgate_up.dtype.element_ty), mask=inside)
    tl.store(into + F, (grad * gate * s).to(dgate_up.dtype.element_ty), mask=inside)


def gate(a: Tensor, gate_up: Tensor) -> None:
    """Write silu(gate) * up into `a` (rows, F)."""
    rows, inner = a.shape
    if not has_half_kernel(a.device, a.dtype):
        a.copy_(functional.silu(gate_up[:, :inner]) * gate_up[:, inner:])
        return
    assert a.stride(1) == gate_up.stride(1) == 1, "features lie side by side"
    gate_kernel[(rows, triton.cdiv(inner, BLOCK))](
        a, gate_up, a.stride(0), gate_up.stride(0), inner, BLOCK=BLOCK, num_warps=WARPS
    )


def gate_backward(dgate_up: Tensor, da: Tensor, gate_up: Tensor) -> None:
    """Write the gradients into `dgate_up` (rows, 2 F)."""
    rows, inner = da.shape
    if not has_half_kernel(da.device, da.dtype):
        dgate_up.copy_(plain_gate_backward(da, gate_up))
        return
    assert dgate_up.stride(1) == da.stride(1) == gate_up.stride(1) == 1, "features lie side by side"
    gate_backward_kernel[(rows, triton.cdiv(inner, BLOCK))](
        dgate_up, da, gate_up, dgate_up.stride(0), da.stride(0), gate_up.stride(0), inner, BLOCK=BLOCK, num_warps=WARPS
    )


def plain_gate_backward(da: Tensor, gate_up: Tensor) -> Tensor:
    """What `gate_backward` writes, in PyTorch."""
    z, up = gate_up.chunk(2, dim=1)
    s = z.sigmoid()
    return torch.cat((da * up * s * (1 + z * (1 - s)), da * z * s), dim=1)
