import torch.nn as nn


class ModelNew(nn.Module):
    """Right and faster."""

    def __init__(self, width, hidden):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden)

    def forward(self, x, start):
        hidden, cell = start
        found, (hidden, cell) = self.lstm(x, (hidden[None], cell[None]))
        return found, (hidden[0], cell[0])
