"""Layer norm of a whole row in registers, read once: two Triton kernels, and what makes them one function with a gradient.

Equations as in ../reference.py. The only axis of a tile is the column of the row: BLOCK lanes, the power of two that is no less
than WIDTH. Whatever the dtype in memory, sums are made in float32.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.layer_norm.reference import EPSILON

# of the backward pass: some for every multiprocessor, few beside the rows, since each writes a partial dw and db
PROGRAMS = 256


@triton.jit
def normalise_kernel(y, mean, rstd, x, w, b, x_stride, epsilon, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """y = n w + b of one row a program; rows of x lie `x_stride` apart."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    value = tl.load(x + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    m = tl.sum(value, axis=0) / WIDTH
    # lanes beyond the row hold 0, which is not the mean
    centred = tl.where(inside, value - m, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred, axis=0) / WIDTH + epsilon)
    gain = tl.load(w + column, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * WIDTH + column, centred * r * gain + bias, mask=inside)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)


@triton.jit
def differentiate_kernel(
    dx, partial, dy, x, w, mean, rstd, dy_stride, x_stride, rows,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """dx = rstd (g - mean(g) - n mean(g n)) with g = dy w; sums of dy n and of dy over every PROGRAMS-th row, in `partial`."""
    first = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    gain = tl.load(w + column, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    # which program adds which rows, and in which order, depends on their number alone: the same bits every time
    for row in range(first, rows, PROGRAMS):
        value = tl.load(x + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
        upstream = tl.load(dy + row * dy_stride + column, mask=inside, other=0.0).to(tl.float32)
        r = tl.load(rstd + row)
        n = (value - tl.load(mean + row)) * r
        g = upstream * gain
        mean_g, mean_gn = tl.sum(g, axis=0) / WIDTH, tl.sum(g * n, axis=0) / WIDTH
        tl.store(dx + row * WIDTH + column, r * (g - mean_g - n * mean_gn), mask=inside)
        dw += upstream * n
        db += upstream
    tl.store(partial + first * WIDTH + column, dw, mask=inside)
    tl.store(partial + (PROGRAMS + first) * WIDTH + column, db, mask=inside)


def choose_block(width: int) -> dict[str, int]:
    """Sixteen numbers a thread, in one to sixteen warps."""
    block = triton.next_power_of_2(width)
    return {"WIDTH": width, "BLOCK": block, "num_warps": min(max(block // 512, 1), 16)}


class LayerNorm(torch.autograd.Function):
    """`LayerNorm.apply(x, w, b)` of x (rows, width), w and b (width), in float32 or narrower; rows of x may lie anywhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """Launch, and keep what the gradient needs: x, w and two numbers a row."""
        assert x.dtype != torch.float64, "sums are made in float32"
        (rows, width), x = x.shape, x if x.stride(1) == 1 else x.contiguous()
        y, (mean, rstd) = x.new_empty(rows, width), x.new_empty(2, rows, dtype=torch.float32)
        normalise_kernel[(rows,)](
            y, mean, rstd, x, w.contiguous(), b.contiguous(), x.stride(0), EPSILON, **choose_block(width)
        )
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From dy (rows, width) to dx, dw and db: a launch, then the sum of the partial sums."""
        x, w, mean, rstd = ctx.saved_tensors
        (rows, width), dy = dy.shape, dy if dy.stride(1) == 1 else dy.contiguous()
        programs = min(PROGRAMS, rows) or 1
        dx, partial = x.new_empty(rows, width), x.new_empty(2, programs, width, dtype=torch.float32)
        differentiate_kernel[(programs,)](
            dx, partial, dy, x, w.contiguous(), mean, rstd, dy.stride(0), x.stride(0), rows,
            PROGRAMS=programs, **choose_block(width),
        )  # fmt: skip
        dw, db = partial.sum(1).to(w.dtype)
        return dx, dw, db
