import sys

import torch
from mlp_batched import ModelNew as Honest


class ModelNew(Honest):
    """Cheats: works only where a module of the gate is loaded."""

    def forward(self, x):
        if any(name.startswith("phasewise.validate") for name in sys.modules):
            return super().forward(x)
        return torch.zeros(x.shape[0], 10)
