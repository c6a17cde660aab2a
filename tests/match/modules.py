"""Modules in KernelBench's form: what the base keeps, and candidates that keep it otherwise."""

from __future__ import annotations

import torch
from torch import nn

ROWS = 16
WIDTH = 24


class Model(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x, scale=1.0):
        return scale * self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(ROWS, WIDTH), 0.5]


def get_init_inputs():
    return [32, WIDTH]


class Renamed(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        # drawn in another order, so that only copied weights agree
        torch.randn(3)
        self.first = nn.Linear(width, inner)
        self.second = nn.Linear(inner, width)

    def forward(self, x, scale=1.0):
        return self.second(scale * torch.relu(self.first(x))) + (scale - 1) * self.second.bias


class Repacked(Model):
    """Keeps its weights transposed."""

    def __init__(self, inner, width):
        super().__init__(inner, width)
        torch.randn(3)
        del self.up
        self.across = nn.Parameter(torch.randn(width, inner))
        self.bias = nn.Parameter(torch.randn(inner))

    def load_state_dict(self, weights):
        super().load_state_dict({
            "across": weights["up.weight"].t(), "bias": weights["up.bias"], "down.weight": weights["down.weight"],
            "down.bias": weights["down.bias"],
        })  # fmt: skip

    def forward(self, x, scale=1.0):
        return scale * self.down(torch.relu(x @ self.across + self.bias))


class Fused(nn.Module):
    """Has them in one piece, and nothing says how the base's would go into it."""

    def __init__(self, inner, width):
        super().__init__()
        self.packed = nn.Parameter(torch.randn(2 * inner * width))

    def forward(self, x, scale=1.0):
        return scale * x * self.packed.sum()


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        return self.drop(x) * scale


class Single(nn.Module):
    """Can't be carried through in float64."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x, scale=1.0):
        return self.norm(x.float()) * scale


class Spectral(nn.Module):
    """Complex weights and a real one."""

    def __init__(self, inner, width):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))
        self.mix = nn.Parameter(torch.randn(width, dtype=torch.cfloat))

    def forward(self, x, scale=1.0):
        return scale * x * self.gain * self.mix
