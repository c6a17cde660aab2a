import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Right and faster."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return F.softmax(self.scale * x, dim=-1)
