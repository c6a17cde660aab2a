import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * columns + column
    row = tl.load(x + at, column < columns, other=0.0)
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + at, power / tl.sum(power, axis=0), column < columns)


class ModelNew(nn.Module):
    """Wrong: what the mask fills in counts."""

    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
