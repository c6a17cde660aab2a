import torch
import torch.nn as nn


class Model(nn.Module):
    """Three layers, one item after the other."""

    def __init__(self, widths):
        super().__init__()
        layers = []
        for index in range(len(widths) - 1):
            layers += [nn.Linear(widths[index], widths[index + 1]), nn.GELU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return torch.stack([self.layers(item) for item in x])


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return [[64, 128, 96, 10]]
