"""A trainer that hands the whole step to its optimizer as a closure, after a look at the validation set: Lightning's way."""

import torch
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.decoder = nn.Linear(64, 32)

    def training_step(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)

    def validation_step(self, batch):
        return self.training_step(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Trainer:
    def __init__(self, steps):
        self.steps = steps

    def fit(self, module):
        optimizer = module.configure_optimizers()
        self.validate(module)
        for index in range(self.steps):
            batch = torch.randn(16, 32)

            def closure(batch=batch):
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                return loss

            optimizer.step(closure)
            if index % 8 == 7:
                self.validate(module)

    @torch.no_grad()
    def validate(self, module):
        for _ in range(5):
            module.validation_step(torch.randn(16, 32))


Trainer(steps=60).fit(Module())
