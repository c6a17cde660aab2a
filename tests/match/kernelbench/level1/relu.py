import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


rows, columns = 64, 1000


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
