import torch.nn as nn


class ModelNew(nn.Module):
    """Right and faster; its weights have other names, and would be drawn otherwise."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)
