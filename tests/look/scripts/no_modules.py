"""Steps that no hook of torch can see."""

import torch


def descend(x):
    return x - 0.1 * torch.tanh(x)


if __name__ == "__main__":
    x = torch.randn(64)
    for _ in range(8):
        x = descend(x)
