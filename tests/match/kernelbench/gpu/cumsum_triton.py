import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum(x, y, columns, BLOCK: tl.constexpr):
    """y[row, i] = x[row, 0] + ... + x[row, i], a row a program."""
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    tl.store(y + at, tl.cumsum(tl.load(x + at, column < columns, other=0.0), axis=0), column < columns)


class ModelNew(nn.Module):
    """Right, and one launch in place of hundreds."""

    def forward(self, x):
        y = torch.empty_like(x)
        cumsum[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
