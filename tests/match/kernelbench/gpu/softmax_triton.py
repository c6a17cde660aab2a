import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    """y[row, :] = exp(x - max x) / sum exp(x - max x), a row a program."""
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * columns + column
    row = tl.load(x + at, column < columns, other=-float("inf"))
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + at, power / tl.sum(power, axis=0), column < columns)


class ModelNew(nn.Module):
    """Right, and reads each row once."""

    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
