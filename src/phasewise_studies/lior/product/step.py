"""One nudged step as a module, for export: complex numbers as pairs, rolls, a root and a softmax, and no state changed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise_studies.lior.data import MAPS, STATE
from phasewise_studies.lior.retrieval import measure_cost, weigh
from phasewise_studies.lior.window import (
    BLEND,
    EPS,
    NUDGE_SCALE,
    SOURCE_STEP,
    Sizes,
    hop,
    index_layers,
    laplacian,
    rotate_by_layers,
)


class Step(torch.nn.Module):
    """The first step of a nudged phase: (tokens, targets, values) -> LIoR, speed, retrieved states, new rows, next field."""

    def __init__(self, inputs: Mapping[str, Tensor], sizes: Sizes, device: torch.device) -> None:
        super().__init__()
        dtype = torch.get_default_dtype()
        for name in (*STATE, *MAPS):
            tensor = inputs[name]
            self.register_buffer(name, tensor.to(device, dtype if tensor.is_floating_point() else None, copy=True))
        for layer, sides in enumerate(index_layers(device)):
            for side, index in zip("ij", sides, strict=True):
                self.register_buffer(f"layer_{layer}_{side}", index)
        self.layer_count = layer + 1
        self.sizes = sizes

    def forward(self, tokens: Tensor, targets: Tensor, values: Tensor) -> dict[str, Tensor]:
        """All (B, ...); the field comes back as (X, Y, D, D, 2)."""
        layers = tuple((getattr(self, f"layer_{s}_i"), getattr(self, f"layer_{s}_j")) for s in range(self.layer_count))
        re, im = self.field.unbind(-1)
        curvature = torch.sqrt(re.square() + im.square()).mean()
        free = tokens + self.projection @ re.mean((0, 1)).flatten()
        q = free + NUDGE_SCALE * (targets - free)
        speed = torch.sqrt((q.square() * self.metric).sum(-1) + EPS)
        query = rotate_by_layers(q, self.theta, layers)
        coords = rotate_by_layers(self.bank_coords, self.theta, layers)
        y = weigh(measure_cost(query, coords, self.bank_valid != 0, self.metric, curvature)) @ self.bank_states
        after = torch.stack((re + hop(0) * laplacian(im), im - hop(0) * laplacian(re)), -1)
        if self.sizes.feedback:
            source = (self.lift @ y.mean(0)).view(self.sizes.inner, self.sizes.inner)
            after = after + SOURCE_STEP * torch.stack((source, torch.zeros_like(source)), -1)
        rows = BLEND * values + (1 - BLEND) * y
        return {"lior": curvature * speed, "speed": speed, "retrieved": y, "rows": rows, "field": after}
