import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Wrong at the border alone: it repeats the edge where zeros belong."""

    def __init__(self, inner, outer, size):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, size, bias=False)
        self.bias = nn.Parameter(torch.randn(outer, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(F.pad(x, (1, 1, 1, 1), mode="replicate")) + self.bias)
