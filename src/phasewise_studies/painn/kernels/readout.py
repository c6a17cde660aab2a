"""The last layer of the readout together with its adjoint: both need the same z, and the energy's own gradient is 1.

e = w2 . silu(z) + c2                     zbar = w2 silu'(z)                       (z = W1 q + c1 of `dense.linear`)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.dense import sigmoid, silu_slope_plain

ROWS = 16


def read_out(z: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Energy of each atom (A,) and the gradient zbar (A, H), from z (A, H), weight (1, H) and bias (1,)."""
    if not has_kernel(z.device, z.dtype):
        return read_out_plain(z, weight, bias)
    atoms, hidden = z.shape
    assert z.is_contiguous() and weight.is_contiguous()
    energy = torch.empty(atoms, dtype=z.dtype, device=z.device)
    zbar = torch.empty_like(z)
    if atoms:
        readout_kernel[(triton.cdiv(atoms, ROWS),)](
            energy, zbar, z, weight, bias, atoms, HIDDEN=hidden, COLUMNS=triton.next_power_of_2(hidden), ROWS=ROWS,
            num_warps=4,
        )  # fmt: skip
    return energy, zbar


def read_out_plain(z: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The same in plain PyTorch, any floating dtype."""
    return functional.linear(functional.silu(z), weight, bias)[:, 0], weight * silu_slope_plain(z)


@triton.jit(do_not_specialize=["atoms"])
def readout_kernel(
    energy, zbar, z, weight, bias, atoms, HIDDEN: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """ROWS atoms."""
    a = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, COLUMNS)
    inside = (a[:, None] < atoms) & (n[None, :] < HIDDEN)
    at = a.to(tl.int64)[:, None] * HIDDEN + n[None, :]
    x = tl.load(z + at, mask=inside, other=0.0)
    w = tl.load(weight + n, mask=n < HIDDEN, other=0.0)[None, :]
    s = sigmoid(x)
    tl.store(energy + a, tl.sum(w * x * s, 1) + tl.load(bias), mask=a < atoms)
    tl.store(zbar + at, w * s * (1.0 + x * (1.0 - s)), mask=inside)
