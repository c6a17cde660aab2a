import torch
import torch.nn as nn
from relu_triton import relu


class ModelNew(nn.Module):
    """Wrong: what does not fill a block is left out."""

    def forward(self, x):
        y = torch.zeros_like(x)
        relu[(x.numel() // 4096,)](x, y, x.numel(), BLOCK=4096)
        return y
