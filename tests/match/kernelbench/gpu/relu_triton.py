import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x, y, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < size), 0.0), i < size)


class ModelNew(nn.Module):
    """Right, and bound by memory as is the base."""

    def forward(self, x):
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
        return y
