import torch
import torch.nn as nn


class Model(nn.Module):
    """Along the last dimension, one row after the other."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        rows = [torch.exp(self.scale * (row - row.max())) for row in x]
        return torch.stack([row / row.sum() for row in rows])


def get_inputs():
    return [torch.randn(48, 500)]


def get_init_inputs():
    return [1.5]
