"""Ends in an error of its own after a few steps."""

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
model(torch.randn(2, 5))
