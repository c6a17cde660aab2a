import torch
import torch.nn as nn


class Model(nn.Module):
    """Row by row, as its definition has it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        rows = [(row - row.mean()) / torch.sqrt(row.var(unbiased=False) + 1e-5) for row in x]
        return torch.stack(rows) * self.weight + self.bias


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
