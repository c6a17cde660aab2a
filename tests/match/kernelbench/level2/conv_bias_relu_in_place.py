import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Right: one call has the bias, and the result is clamped in place."""

    def __init__(self, inner, outer, size):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, size, padding=1, bias=False)
        self.bias = nn.Parameter(torch.randn(outer, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.conv.weight, self.bias.flatten(), padding=1).relu_()
