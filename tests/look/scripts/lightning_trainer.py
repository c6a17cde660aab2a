"""Lightning's trainer, which hands the whole step to its optimizer as a closure, after a look at the validation set."""

import pytorch_lightning as lightning
import torch
from torch import nn


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
        self.decoder = nn.Linear(64, 32)

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])

    def validation_step(self, batch, index):
        self.training_step(batch, index)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(640, 32)), batch_size=16)
trainer = lightning.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Module(), data, data)
