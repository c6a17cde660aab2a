import torch.nn as nn


class ModelNew(nn.Module):
    """Right, and no faster."""

    def forward(self, x):
        return x.clamp_min(0)
