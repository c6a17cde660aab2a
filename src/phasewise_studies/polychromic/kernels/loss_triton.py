"""log p of given tokens from logits in half precision: no matrix of float32 of the vocabulary's size is ever written.

    log p = z_target - lse,   lse = log sum_v e^z_v          dz_v = dlog_p ([v = target] - e^(z_v - lse))

The backward pass writes dz into the place of the logits. Rows whose target is negative have log p = 0 and no gradient. The
plain form, beside the kernels, answers on other devices and in float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import has_half_kernel

BLOCK, WARPS = 4096, 8


@triton.jit
def log_p_kernel(log_p, lse, logits, targets, stride, V: tl.constexpr, BLOCK: tl.constexpr):
    """One row in one pass: a running maximum, and the sum of e^(z - maximum) lane by lane."""
    row = tl.program_id(0).to(tl.int64)
    z_row = logits + row * stride
    i = tl.arange(0, BLOCK)
    largest = tl.max(tl.load(z_row + i, mask=i < V, other=float("-inf")).to(tl.float32), axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, V, BLOCK):
        z = tl.load(z_row + first + i, mask=first + i < V, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(z, axis=0))
        total = total * tl.exp(largest - larger) + tl.exp(z - larger)
        largest = larger
    found = largest + tl.log(tl.sum(total, axis=0))
    target = tl.load(targets + row)
    chosen = tl.load(z_row + target, mask=target >= 0, other=0.0).to(tl.float32)
    tl.store(lse + row, found)
    tl.store(log_p + row, tl.where(target >= 0, chosen - found, 0.0))


@triton.jit
def log_p_backward_kernel(logits, dlog_p, lse, targets, stride, V: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK logits of a row become their gradients: (rows, V / BLOCK) programs."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = logits + row * stride + i
    z = tl.load(at, mask=i < V, other=float("-inf")).to(tl.float32)
    target = tl.load(targets + row)
    grad = tl.where(target >= 0, tl.load(dlog_p + row), 0.0)
    p = tl.exp(z - tl.load(lse + row))
    dz = grad * (tl.where(i == target, 1.0, 0.0) - p)
    tl.store(at, dz.to(logits.dtype.element_ty), mask=i < V)


def token_log_p(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """log p (rows,) of `targets` (rows,) and lse (rows,), in float32 at least, from logits (rows, V)."""
    if not has_half_kernel(logits.device, logits.dtype):
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        lse = wide.logsumexp(1)
        chosen = wide.gather(1, targets.clamp_min(0)[:, None])[:, 0]
        return torch.where(targets >= 0, chosen - lse, 0.0), lse
    rows, vocabulary = logits.shape
    log_p, lse = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
    assert logits.stride(1) == 1 and targets.is_contiguous(), "a row lies in one piece"
    log_p_kernel[(rows,)](log_p, lse, logits, targets, logits.stride(0), V=vocabulary, BLOCK=BLOCK, num_warps=WARPS)
    return log_p, lse


def token_log_p_backward(logits: Tensor, dlog_p: Tensor, lse: Tensor, targets: Tensor) -> Tensor:
    """dL/dlogits in the place of the logits, which are lost."""
    if not has_half_kernel(logits.device, logits.dtype):
        dz = -(logits.to(lse.dtype) - lse[:, None]).exp()
        dz.scatter_add_(1, targets.clamp_min(0)[:, None], torch.ones_like(lse)[:, None])
        return logits.copy_(dz * torch.where(targets >= 0, dlog_p, 0.0)[:, None])
    rows, vocabulary = logits.shape
    log_p_backward_kernel[(rows, triton.cdiv(vocabulary, BLOCK))](
        logits, dlog_p.contiguous(), lse, targets, logits.stride(0), V=vocabulary, BLOCK=BLOCK, num_warps=WARPS
    )
    return logits
