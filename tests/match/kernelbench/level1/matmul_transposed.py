import torch.nn as nn


class ModelNew(nn.Module):
    """Right: the transposed product, transposed back."""

    def forward(self, a, b):
        return (b.t() @ a.t()).t()
