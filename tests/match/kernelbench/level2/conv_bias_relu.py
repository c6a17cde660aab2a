import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inner, outer, size):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, size, padding=1, bias=False)
        self.bias = nn.Parameter(torch.randn(outer, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x) + self.bias)


batch, inner, outer, side = 4, 3, 8, 20


def get_inputs():
    return [torch.randn(batch, inner, side, side)]


def get_init_inputs():
    return [inner, outer, 3]
