import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Causal attention, head by head."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        _, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        found = []
        for head in range(self.heads):
            at = slice(head * width // self.heads, (head + 1) * width // self.heads)
            scores = q[..., at] @ k[..., at].transpose(1, 2) / math.sqrt(width // self.heads)
            found.append(torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v[..., at])
        return self.out(torch.cat(found, dim=-1))


def get_inputs():
    return [torch.randn(2, 32, 64)]


def get_init_inputs():
    return [64, 8]
