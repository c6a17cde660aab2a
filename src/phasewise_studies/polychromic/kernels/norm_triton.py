"""Residual and RMSNorm in one pass over memory, forward and backward; one program a token, a whole row in registers.

    h = x + y,   n = g h r   with r = 1 / sqrt(mean(h^2) + eps)
    dL/dh = r (g dn - h r^2 mean(g dn h)) + dh,   where dh comes from the residual stream; dL/dx = dL/dy = dL/dh

Each has its plain form beside it, which answers on other devices and in float64. Gains are frozen and have no gradient.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import has_half_kernel


@triton.jit
def add_norm_kernel(
    h, n, scale, x, y, gain, n_stride, x_stride, y_stride, epsilon,
    D: tl.constexpr, BLOCK: tl.constexpr, HAS_Y: tl.constexpr,
):  # fmt: skip
    """h, n and r of one row. The norm is that of h as it is stored."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < D
    total = tl.load(x + row * x_stride + i, mask=inside, other=0.0).to(tl.float32)
    if HAS_Y:
        total += tl.load(y + row * y_stride + i, mask=inside, other=0.0).to(tl.float32)
    stored = total.to(h.dtype.element_ty)
    tl.store(h + row * D + i, stored, mask=inside)
    wide = stored.to(tl.float32)
    r = tl.rsqrt(tl.sum(wide * wide, axis=0) / D + epsilon)
    g = tl.load(gain + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(n + row * n_stride + i, (g * wide * r).to(n.dtype.element_ty), mask=inside)
    tl.store(scale + row, r)


@triton.jit
def add_norm_backward_kernel(
    dx, dn, dh, h, scale, gain, dx_stride, dn_stride, dh_stride,
    D: tl.constexpr, BLOCK: tl.constexpr, HAS_DH: tl.constexpr,
):  # fmt: skip
    """dL/dx of one row."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    inside = i < D
    g = tl.load(gain + i, mask=inside, other=0.0).to(tl.float32)
    grad = g * tl.load(dn + row * dn_stride + i, mask=inside, other=0.0).to(tl.float32)
    wide = tl.load(h + row * D + i, mask=inside, other=0.0).to(tl.float32)
    r = tl.load(scale + row)
    mean = tl.sum(grad * wide, axis=0) / D
    found = r * (grad - wide * (r * r * mean))
    if HAS_DH:
        found += tl.load(dh + row * dh_stride + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + row * dx_stride + i, found.to(dx.dtype.element_ty), mask=inside)


def add_norm(n: Tensor, x: Tensor, y: Tensor | None, gain: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Write the norm of h = x + y (rows, D) into `n`; gives h and r (rows,)."""
    if not has_half_kernel(x.device, x.dtype):
        return plain_add_norm(n, x, y, gain, epsilon)
    rows, width = x.shape
    h, scale = torch.empty((rows, width), dtype=x.dtype, device=x.device), x.new_empty(rows, dtype=torch.float32)
    second = x if y is None else y
    assert n.stride(1) == x.stride(1) == second.stride(1) == gain.stride(0) == 1, "features lie side by side"
    block = triton.next_power_of_2(width)
    add_norm_kernel[(rows,)](
        h, n, scale, x, second, gain, n.stride(0), x.stride(0), second.stride(0), epsilon,
        D=width, BLOCK=block, HAS_Y=y is not None, num_warps=choose_warps(block),
    )  # fmt: skip
    return h, scale


def add_norm_backward(dx: Tensor, dn: Tensor, dh: Tensor | None, h: Tensor, scale: Tensor, gain: Tensor) -> Tensor:
    """Write dL/dx (rows, D) into `dx`, and give it back; `dh` is the residual stream's own gradient."""
    if not has_half_kernel(h.device, h.dtype):
        return plain_add_norm_backward(dx, dn, dh, h, scale, gain)
    rows, width = h.shape
    other = dn if dh is None else dh
    assert dx.stride(1) == dn.stride(1) == other.stride(1) == gain.stride(0) == 1, "features lie side by side"
    assert h.is_contiguous(), "h is as add_norm gave it"
    block = triton.next_power_of_2(width)
    add_norm_backward_kernel[(rows,)](
        dx, dn, other, h, scale, gain, dx.stride(0), dn.stride(0), other.stride(0),
        D=width, BLOCK=block, HAS_DH=dh is not None, num_warps=choose_warps(block),
    )  # fmt: skip
    return dx


def choose_warps(block: int) -> int:
    """Eight numbers a thread, in one to eight warps."""
    return min(max(block // 256, 1), 8)


def plain_add_norm(n: Tensor, x: Tensor, y: Tensor | None, gain: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`add_norm` in PyTorch."""
    h = x.clone() if y is None else x + y
    wide = h.to(torch.promote_types(h.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1) + epsilon)
    n.copy_(gain * wide * scale[:, None])
    return h, scale


def plain_add_norm_backward(
    dx: Tensor, dn: Tensor, dh: Tensor | None, h: Tensor, scale: Tensor, gain: Tensor
) -> Tensor:
    """`add_norm_backward` in PyTorch."""
    wide, r = h.to(scale.dtype), scale[:, None]
    grad = gain.to(scale.dtype) * dn.to(scale.dtype)
    found = r * (grad - wide * r.square() * (grad * wide).mean(-1, keepdim=True))
    return dx.copy_(found if dh is None else found + dh)
