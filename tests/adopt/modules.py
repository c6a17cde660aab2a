"""Modules whose file does not say what they are called with."""

import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, words, mask=None):
        return {"scores": self.head(self.table(words))}


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, image):
        x = self.body(image)
        return x, x.softmax(-1)


class Bare(nn.Module):
    def forward(self, x):
        return x + 1


class Loose(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        return super().forward(x), "a word"


def function(x):
    return torch.relu(x)
