"""A training loop as everybody writes it, unaware of who looks."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Sequential(nn.Linear(256, 64), nn.LayerNorm(64))).to(device)
optimizer = torch.optim.AdamW(model.parameters())
loss_function = nn.MSELoss()


def train_step(x, y):
    loss = loss_function(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    # evaluated before it is trained, which is no step
    with torch.no_grad():
        for _ in range(12):
            model(torch.randn(8, 64, device=device))
    data = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randn(640, 64))
    for _ in range(int(sys.argv[1])):
        for x, y in torch.utils.data.DataLoader(data, batch_size=16):
            train_step(x.to(device), y.to(device))
    print("trained to the end")
