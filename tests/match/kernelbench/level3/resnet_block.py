import torch
import torch.nn as nn


class Model(nn.Module):
    """With normalisation by the batch, as constructors leave it."""

    def __init__(self, inner, outer):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        found = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(found)) + self.shortcut(x))


def get_inputs():
    return [torch.randn(4, 4, 14, 14)]


def get_init_inputs():
    return [4, 8]
