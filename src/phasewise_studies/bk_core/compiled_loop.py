"""The ratio recursion under torch.compile: sixteen steps a call, real and imaginary parts apart.

Inductor has no code for complex numbers, and unrolling a whole sequence of thousands of steps takes it minutes; sixteen steps
are one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

STEPS = 16
# the first batch size is compiled by itself, others together; the checks try more kinds of operands than Dynamo's usual 8
KINDS = 64


def advance(
    pivot_re: Tensor, pivot_im: Tensor, shift_re: Tensor, shift_im: float, coupling: Tensor
) -> tuple[Tensor, Tensor]:
    """Sixteen (or fewer) steps of d_i = alpha_i - k_{i-1} / d_{i-1}.

    Args:
        pivot_re, pivot_im: (B,), the pivot before the first step.
        shift_re: (S, B), Re alpha_i; shift_im: Im alpha_i, the same for all.
        coupling: (S, B) or (S, 1), k_{i-1}.

    Returns:
        Real and imaginary parts of the S pivots, (S, B) each.
    """
    found_re, found_im = [], []
    for step in range(shift_re.shape[0]):
        scale = coupling[step] / (pivot_re * pivot_re + pivot_im * pivot_im)
        pivot_re, pivot_im = shift_re[step] - scale * pivot_re, shift_im + scale * pivot_im
        found_re.append(pivot_re)
        found_im.append(pivot_im)
    return torch.stack(found_re), torch.stack(found_im)


@cache
def compile_advance() -> Callable[..., tuple[Tensor, Tensor]]:
    """`advance`, compiled for the first batch size of a process, and once more for all others."""
    compiled: Callable[..., tuple[Tensor, Tensor]] = torch.compile(advance, fullgraph=True)
    return compiled


def diagonal_compiled(a: Tensor, b: Tensor, c: Tensor, z: complex) -> Tensor:
    """Diagonal of (H - zI)^-1 for real a (B, N), real b and c (N-1,) or (B, N-1); complex (B, N)."""
    shift_re, shift_im = (a - z.real).T.contiguous(), -z.imag
    coupling = (b * c)[:, None] if b.dim() == 1 else (b * c).T.contiguous()
    with torch._dynamo.config.patch(recompile_limit=KINDS):
        down_re, down_im = _sweep(shift_re, shift_im, coupling)
        up_re, up_im = (part.flip(0) for part in _sweep(shift_re.flip(0), shift_im, coupling.flip(0)))
    # G = 1 / (d + e - alpha)
    re, im = down_re + up_re - shift_re, down_im + up_im - shift_im
    scale = 1 / (re * re + im * im)
    return torch.complex(re * scale, -im * scale).T


def _sweep(shift_re: Tensor, shift_im: float, coupling: Tensor) -> tuple[Tensor, Tensor]:
    step = compile_advance()
    length, batch = shift_re.shape
    # 0 / |1|^2 leaves the first pivot at alpha_0
    coupling = torch.cat((torch.zeros_like(coupling[:1]) if length > 1 else coupling.new_zeros(1, 1), coupling))
    padded = -(-length // STEPS) * STEPS - length
    if padded:
        shift_re = torch.cat((shift_re, shift_re.new_zeros(padded, batch)))
        coupling = torch.cat((coupling, coupling.new_zeros(padded, coupling.shape[1])))
    pivot_re, pivot_im = torch.ones_like(shift_re[0]), torch.zeros_like(shift_re[0])
    found: list[tuple[Tensor, Tensor]] = []
    for start in range(0, length + padded, STEPS):
        part = step(pivot_re, pivot_im, shift_re[start : start + STEPS], shift_im, coupling[start : start + STEPS])
        pivot_re, pivot_im = part[0][-1].clone(), part[1][-1].clone()
        found.append(part)
    return torch.cat([part[0] for part in found])[:length], torch.cat([part[1] for part in found])[:length]
