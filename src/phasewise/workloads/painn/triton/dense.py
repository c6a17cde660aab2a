"""Dense layers of atoms on tensor cores at float32 accuracy: bias, silu and its slope, residual in the same kernel.

    forward   z = x W^T + b, h = silu(z)                    adjoint   xbar = (hbar W) silu'(z)  [+ residual]

`tf32x3` splits each float32 into two TF32 numbers and adds three of the four products, dropping one of 2^-22: three times the
tensor work for the error of float32. `tf32` is one product with 10 bits; `ieee` multiplies on the ordinary cores.
A kernel saves the pass over (A, N) that each of bias, silu, product and sum would cost on its own: 4 N B an atom and pass,
read and written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from phasewise.workloads.painn.triton.device import blocks, has_kernels

Precision = Literal["tf32x3", "tf32", "ieee"]


@dataclass(frozen=True)
class TileLaunch:
    """Atoms, outputs and inputs of a tile, warps, and how many tiles are fetched ahead."""

    rows: int = 64
    columns: int = 64
    depth: int = 32
    warps: int = 4
    stages: int = 3


# the first is for few atoms, the second for many
LINEAR_LAUNCHES = (
    TileLaunch(16, 32, stages=2), TileLaunch(128, 64, warps=8), TileLaunch(), TileLaunch(64, 128, warps=8),
)  # fmt: skip
# fewer atoms than this leave multiprocessors idle in large tiles
MANY_ROWS = 2048


def choose_tile(launches: tuple[TileLaunch, ...], x: Tensor) -> TileLaunch:
    """The launch for the rows of x, from a list whose first is for few and whose second is for many."""
    # before capability 8 there is neither TF32 nor the shared memory for large tiles
    small = x.shape[0] < MANY_ROWS or (x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 0))
    return launches[0] if small else launches[1]


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, second: Tensor | None = None, transpose: bool = False,
    silu: bool = False, slope_at: Tensor | None = None, residual: Tensor | None = None, precision: Precision = "tf32x3",
    launch: TileLaunch | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """y = [x, second] W^T + b, or x W if `transpose`; then silu, or times silu'(slope_at), then plus residual.

    Args:
        x, second: (A, K1) and (A, K2), rows contiguous; joined without a copy.
        weight: (N, K1 + K2), or (K1, N) if `transpose`; bias (N,).
        silu: y = silu(z); z is returned beside it, for the adjoint.
        slope_at: (A, N), contiguous: y is multiplied by silu' there.
        residual: (A, R) with R <= N, added to the first R columns.

    Returns:
        y (A, N) and z (A, N) or None.
    """
    assert not (silu and slope_at is not None) and (second is None or not transpose)
    if not has_kernels(x.device, x.dtype):
        return linear_plain(
            x, weight, bias, second=second, transpose=transpose, silu=silu, slope_at=slope_at, residual=residual
        )
    rows, depth = x.shape
    more = 0 if second is None else second.shape[1]
    columns = weight.shape[1] if transpose else weight.shape[0]
    launch = launch or choose_tile(LINEAR_LAUNCHES, x)
    tensors = [t for t in (x, second, residual) if t is not None]
    assert all(t.stride(1) == 1 for t in tensors) and weight.is_contiguous()
    assert depth % launch.depth == 0 and more % launch.depth == 0, "the inputs are walked in whole tiles"
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    z = torch.empty_like(out) if silu else None
    saved = z if silu else slope_at if slope_at is not None else out
    stride_n, stride_k = (1, columns) if transpose else (depth + more, 1)
    if rows:
        linear_kernel[(blocks(rows, launch.rows), blocks(columns, launch.columns))](
            out, saved, x, x if second is None else second, weight, out if bias is None else bias,
            out if residual is None else residual, rows, columns, x.stride(0), 0 if second is None else second.stride(0),
            0 if residual is None else residual.stride(0), stride_k, stride_n,
            DEPTH=depth, MORE=more, BIAS=bias is not None, SILU=silu, SLOPE=slope_at is not None,
            RESIDUAL=0 if residual is None else residual.shape[1], PRECISION=precision,
            ROWS=launch.rows, COLUMNS=launch.columns, STEP=launch.depth, num_warps=launch.warps,
            num_stages=launch.stages,
        )  # fmt: skip
    return out, z


def linear_plain(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, second: Tensor | None = None, transpose: bool = False,
    silu: bool = False, slope_at: Tensor | None = None, residual: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The same in plain PyTorch, any floating dtype."""
    joined = x if second is None else torch.cat((x, second), dim=1)
    z = functional.linear(joined, weight.T if transpose else weight, bias)
    y = functional.silu(z) if silu else z
    if slope_at is not None:
        y = y * silu_slope_plain(slope_at)
    if residual is not None:
        y = torch.cat((y[:, : residual.shape[1]] + residual, y[:, residual.shape[1] :]), dim=1)
    return y, z if silu else None


def silu_slope_plain(z: Tensor) -> Tensor:
    """silu'(z) = s + z s (1 - s) with s = sigmoid(z)."""
    s = torch.sigmoid(z)
    return s * (1 + z * (1 - s))


@triton.jit
def sigmoid(z):
    """1 / (1 + e^-z)."""
    return 1.0 / (1.0 + tl.exp(-z))


@triton.jit
def silu_slope(z):
    """The derivative of z sigmoid(z)."""
    s = sigmoid(z)
    return s * (1.0 + z * (1.0 - s))


@triton.jit
def load_weight(weight, k, n, stride_k, stride_n, columns):
    """A tile of W^T, inputs down and outputs across; 0 beyond the last output."""
    return tl.load(weight + k[:, None] * stride_k + n[None, :] * stride_n, mask=n[None, :] < columns, other=0.0)


@triton.jit(do_not_specialize=["rows"])
def linear_kernel(
    out, saved, x, second, weight, bias, residual, rows, columns, stride_x, stride_second, stride_residual,
    stride_k, stride_n,
    DEPTH: tl.constexpr, MORE: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, SLOPE: tl.constexpr,
    RESIDUAL: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """One tile of the result."""
    a = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = a < rows
    step = tl.arange(0, STEP)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for begin in range(0, DEPTH, STEP):
        k = begin + step
        tile = tl.load(x + a * stride_x + k[None, :], mask=valid, other=0.0)
        w = load_weight(weight, k, n, stride_k, stride_n, columns)
        total = tl.dot(tile, w, total, input_precision=PRECISION)
    for begin in range(0, MORE, STEP):
        k = begin + step
        tile = tl.load(second + a * stride_second + k[None, :], mask=valid, other=0.0)
        w = load_weight(weight, DEPTH + k, n, stride_k, stride_n, columns)
        total = tl.dot(tile, w, total, input_precision=PRECISION)
    inside = valid & (n[None, :] < columns)
    at = a * columns + n[None, :]
    if BIAS:
        total += tl.load(bias + n, mask=n < columns, other=0.0)[None, :]
    if SILU:
        tl.store(saved + at, total, mask=inside)
        total = total * sigmoid(total)
    if SLOPE:
        total = total * silu_slope(tl.load(saved + at, mask=inside, other=0.0))
    if RESIDUAL > 0:
        total += tl.load(residual + a * stride_residual + n[None, :], mask=inside & (n[None, :] < RESIDUAL), other=0.0)
    tl.store(out + at, total, mask=inside)
