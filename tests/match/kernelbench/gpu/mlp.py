import torch
import torch.nn as nn


class Model(nn.Module):
    """In bfloat16."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, dtype=torch.bfloat16)
        self.down = nn.Linear(4 * width, width, dtype=torch.bfloat16)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh"))


def get_inputs():
    return [torch.randn(4096, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return [1024]
