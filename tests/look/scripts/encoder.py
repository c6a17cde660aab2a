"""An encoder of torch.nn: a base of KernelBench's form, and a script that steps it."""

import torch

BATCH, LENGTH, WIDTH, HEADS, INNER, LAYERS = 4, 12, 32, 4, 64, 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS)
        self.eval().requires_grad_(False)

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def main() -> None:
    model, batch = Model(), get_inputs()
    for _ in range(20):
        model(*batch)


if __name__ == "__main__":
    main()
