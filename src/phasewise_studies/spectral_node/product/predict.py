"""What export writes: absorbances at other concentrations, from tables alone. Needs nothing but torch operators."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.spectral_node.closed_form import Tables, couple_closed
from phasewise_studies.spectral_node.flow import Flow


class Predict(torch.nn.Module):
    """start and stop (P,), absorbance at start (W, P) -> absorbance at stop (P, W), by the closed form."""

    def __init__(self, tables: Tables, flow: Flow, steps: int) -> None:
        super().__init__()
        self.steps = steps
        for name, tensor in {**tables._asdict(), **flow._asdict()}.items():
            self.register_buffer(name, tensor.detach().clone())

    def forward(self, start: Tensor, stop: Tensor, absorbance: Tensor) -> Tensor:
        """A(1)."""
        tables = Tables(self.speed, self.arc, self.inverse)
        flow = Flow(self.bias, self.by_c, self.by_v, self.by_a, self.out, self.shift)
        begin, goal = (level[:, None].expand(-1, absorbance.shape[0]) for level in (start, stop))
        return couple_closed(tables, flow, begin, goal, absorbance.T, self.steps)[1]
