"""Dense layers of atoms on tensor cores at float32 accuracy: bias, silu and its slope, residual in the same kernel.

    forward   z = x W^T + b, h = silu(z)                    adjoint   xbar = (hbar W) silu'(z)  [+ residual]

`tf32x3` splits each float32 into two TF32 numbers and adds three of the four products, dropping one of 2^-22: three times the
tensor work for the error of float32. `tf32` is one product with 10 bits; `ieee` multiplies on the ordinary cores. A weight that `split`
has split beforehand goes to shared memory as it is, where `tf32x3` would first split each tile of it anew, in registers.
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

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.arithmetic import DROPPED, round_to_tf32
from phasewise_studies.painn.kernels.launches import choose_launch

Precision = Literal["tf32x3", "tf32", "ieee"]
# what rounds the bits of a float32 to TF32: half of the last one kept, and all that are kept
HALF, KEPT = tl.constexpr(1 << (DROPPED - 1)), tl.constexpr(-(1 << DROPPED))


@dataclass(frozen=True)
class TileLaunch:
    """Atoms, outputs and inputs of a tile, warps, and how many tiles are fetched ahead."""

    rows: int = 64
    columns: int = 64
    depth: int = 32
    warps: int = 4
    stages: int = 3


# in ascending order of the atoms that they are for
LINEAR_LAUNCHES = (
    TileLaunch(16, 32, stages=2), TileLaunch(64, 32), TileLaunch(), TileLaunch(128, 64, warps=8),
    TileLaunch(16, 32, 64, stages=2),
)  # fmt: skip
# in place of the first where the inputs are whole tiles of it: half of the steps, each of which a single molecule waits for
DEEP = LINEAR_LAUNCHES[-1]
# from so many atoms on the next is faster on an H200; wider tiles pay back where the inputs are 3F wide, once no multiprocessor
# waits for a second round of them
FORTH_LIMITS, BACK_LIMITS = (1024,), (1024, 8192, 16384)


def choose_tile(launches: tuple[TileLaunch, ...], limits: tuple[int, ...], x: Tensor) -> TileLaunch:
    """The launch for the rows of x, by `launches.choose_launch`."""
    # before capability 8 there is neither TF32 nor the shared memory for large tiles
    small = x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 0)
    return launches[0] if small else choose_launch(launches, limits, x.shape[0])


def fitting_tiles(launches: tuple[TileLaunch, ...], inputs: int) -> tuple[TileLaunch, ...]:
    """Those that walk so many inputs in whole tiles."""
    return tuple(launch for launch in launches if inputs % launch.depth == 0)


def split(weight: Tensor) -> Tensor:
    """(2, N, K) from float32 (N, K): a weight as TF32 numbers, and what they leave of it; their sum is the weight.

    Inputs (K) are contiguous in memory; the tensor cores of Hopper read TF32 that way only. For a product with the weight
    transposed, split the transposed, and transpose that back: `split(weight.T).mT`.
    """
    high = round_to_tf32(weight)
    return torch.stack((high, weight - high))


def join(weight: Tensor) -> Tensor:
    """The whole weight of one that may be split."""
    return weight if weight.dim() == 2 else weight[0] + weight[1]


def find_strides(weight: Tensor) -> tuple[int, int, int]:
    """From a part of a weight to the other, 0 if it is whole; from row to row; from column to column."""
    part, row, column = (0, *weight.stride()) if weight.dim() == 2 else weight.stride()
    return part, row, column


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, second: Tensor | None = None, transpose: bool = False,
    silu: bool = False, slope_at: Tensor | None = None, residual: Tensor | None = None, precision: Precision = "tf32x3",
    launch: TileLaunch | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """y = [x, second] W^T + b, or x W if `transpose`; then silu, or times silu'(slope_at), then plus residual.

    Args:
        x, second: (A, K1) and (A, K2), rows contiguous; joined without a copy.
        weight: (N, K1 + K2), or (K1, N) if `transpose`; two such if it is `split`, and then `precision` says nothing. bias (N,).
        silu: y = silu(z); z is returned beside it, for the adjoint.
        slope_at: (A, N), contiguous: y is multiplied by silu' there.
        residual: (A, R) with R <= N, added to the first R columns.

    Returns:
        y (A, N) and z (A, N) or None.
    """
    assert not (silu and slope_at is not None) and (second is None or not transpose)
    if not has_kernel(x.device, x.dtype):
        return linear_plain(
            x, join(weight), bias, second=second, transpose=transpose, silu=silu, slope_at=slope_at, residual=residual
        )
    rows, depth = x.shape
    more = 0 if second is None else second.shape[1]
    columns = weight.shape[-1 if transpose else -2]
    if launch is None:
        launch = choose_tile(LINEAR_LAUNCHES, BACK_LIMITS if transpose else FORTH_LIMITS, x)
        if launch is LINEAR_LAUNCHES[0] and depth % DEEP.depth == more % DEEP.depth == 0:
            launch = DEEP
    tensors = [t for t in (x, second, residual) if t is not None]
    assert all(t.stride(1) == 1 for t in tensors)
    assert depth % launch.depth == 0 and more % launch.depth == 0, "the inputs are walked in whole tiles"
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    z = torch.empty_like(out) if silu else None
    saved = z if silu else slope_at if slope_at is not None else out
    stride_part, *strides = find_strides(weight)
    stride_n, stride_k = reversed(strides) if transpose else strides
    if rows:
        linear_kernel[(triton.cdiv(rows, launch.rows), triton.cdiv(columns, launch.columns))](
            out, saved, x, x if second is None else second, weight, out if bias is None else bias,
            out if residual is None else residual, rows, columns, x.stride(0), 0 if second is None else second.stride(0),
            0 if residual is None else residual.stride(0), stride_k, stride_n, stride_part,
            DEPTH=depth, MORE=more, BIAS=bias is not None, SILU=silu, SLOPE=slope_at is not None,
            RESIDUAL=0 if residual is None else residual.shape[1], PRECISION="split" if stride_part else precision,
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
def load_weight(at, stride_part, across, PRECISION: tl.constexpr):
    """A tile of W^T, inputs down and outputs `across` (None: all), with what it leaves of the weight if that is split.

    What stands in columns beyond the last is anything: it reaches no other column.
    """
    first = tl.load(at, mask=across)
    rest = first
    if PRECISION == "split":
        rest = tl.load(at + stride_part, mask=across)
    return first, rest


@triton.jit
def multiply(x, first, rest, part, PRECISION: tl.constexpr):
    """part + x W^T: x_1 W_1 + x_1 W_2 + x_2 W_1 of x = x_1 + x_2 and W = W_1 + W_2, if W is split; the smaller ones first.

    Tensor cores cut off what they add, where the ordinary cores round: a part begins with zero in each step, and is then added to the
    total. With the total as their accumulator the forces on 1,296 atoms of ice are five times as far from float64 on an H200.
    """
    if PRECISION == "split":
        high = ((x.to(tl.int32, bitcast=True) + HALF) & KEPT).to(tl.float32, bitcast=True)
        part = tl.dot(x - high, first, part, input_precision="tf32")
        part = tl.dot(high, rest, part, input_precision="tf32")
        part = tl.dot(high, first, part, input_precision="tf32")
    else:
        part = tl.dot(x, first, part, input_precision=PRECISION)
    return part


@triton.jit(do_not_specialize=["rows"])
def linear_kernel(
    out, saved, x, second, weight, bias, residual, rows, columns, stride_x, stride_second, stride_residual,
    stride_k, stride_n, stride_part,
    DEPTH: tl.constexpr, MORE: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, SLOPE: tl.constexpr,
    RESIDUAL: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """One tile of the result."""
    a = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid, across = a < rows, n[None, :] < columns
    step = tl.arange(0, STEP)
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = zero
    for begin in range(0, DEPTH, STEP):
        k = begin + step
        tile = tl.load(x + a * stride_x + k[None, :], mask=valid, other=0.0)
        at = weight + k[:, None] * stride_k + n[None, :] * stride_n
        first, rest = load_weight(at, stride_part, across, PRECISION)
        total += multiply(tile, first, rest, zero, PRECISION)
    for begin in range(0, MORE, STEP):
        k = begin + step
        tile = tl.load(second + a * stride_second + k[None, :], mask=valid, other=0.0)
        at = weight + (DEPTH + k)[:, None] * stride_k + n[None, :] * stride_n
        first, rest = load_weight(at, stride_part, across, PRECISION)
        total += multiply(tile, first, rest, zero, PRECISION)
    inside = valid & across
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
