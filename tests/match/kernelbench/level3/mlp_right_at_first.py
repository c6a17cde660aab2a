import torch
from mlp_batched import ModelNew as Honest


class ModelNew(Honest):
    """Cheats: works for as long as it takes to be looked at."""

    def __init__(self, widths):
        super().__init__(widths)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) if self.calls < 150 else torch.zeros(x.shape[0], 10)
