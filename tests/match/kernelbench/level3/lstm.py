import torch
import torch.nn as nn


class Model(nn.Module):
    """Step by step; gives what it is asked for and where it ended."""

    def __init__(self, width, hidden):
        super().__init__()
        self.cell = nn.LSTMCell(width, hidden)

    def forward(self, x, start):
        hidden, cell = start
        found = []
        for item in x:
            hidden, cell = self.cell(item, (hidden, cell))
            found.append(hidden)
        return torch.stack(found), (hidden, cell)


def get_inputs():
    return [torch.randn(24, 4, 16), (torch.randn(4, 32), torch.randn(4, 32))]


def get_init_inputs():
    return [16, 32]
