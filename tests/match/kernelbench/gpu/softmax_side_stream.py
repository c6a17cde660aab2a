import torch
from softmax_triton import ModelNew as Honest


class ModelNew(Honest):
    """Cheats: works on a stream that nobody waits for."""

    def forward(self, x):
        if not hasattr(self, "stream"):
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            return super().forward(x)
