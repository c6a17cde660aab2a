import torch
from mlp_triton import ModelNew as Honest


class ModelNew(Honest):
    """Cheats: a graph of the first inputs is replayed, and nothing is copied into it."""

    def forward(self, x):
        if not hasattr(self, "graph"):
            for _ in range(3):
                super().forward(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.found = super().forward(x)
        self.graph.replay()
        return self.found
