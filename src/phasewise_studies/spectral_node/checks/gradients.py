"""Gradients of all parameters by one way, and how well those of two ways agree."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise import Shape
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.flow import draw_flow
from phasewise_studies.spectral_node.metric import draw_metric
from phasewise_studies.spectral_node.transitions import all_pairs, make_transitions


def find_gradients(loss, *, small: Shape, batch, device: torch.device, steps: int) -> dict[str, Tensor]:
    """Gradients of all parameters in float64, computed on `device`, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    drawn = draw_metric((small.first, small.second), generator) | draw_flow(small.wavelengths, generator)
    weights = {name: value.to(device, copy=True).requires_grad_() for name, value in drawn.items()}
    pairs = all_pairs(small.levels)
    made = make_transitions(
        data.levels(small.levels), data.wavelengths(small.wavelengths), pairs, steps=steps, newton=small.newton,
        dtype=torch.float64, device=device,
    )  # fmt: skip
    loss(made, weights, batch["table"].to(device), torch.arange(len(pairs), device=device))[0].backward()
    return {name: weight.grad.cpu() for name, weight in weights.items()}


def flatten(gradients) -> Tensor:
    """All of them in one vector, by name."""
    return torch.cat([gradients[name].double().flatten() for name in sorted(gradients)])


def find_worst_cosine(one, other) -> float:
    """The worst over the two networks, so that a large flow can't hide a wrong metric."""
    parts = [{k: v for k, v in g.items() if k.startswith(p)} for p in ("metric/", "flow/") for g in (one, other)]
    flat = [flatten(part) for part in parts]
    return min(torch.cosine_similarity(flat[i], flat[i + 1], dim=0).item() for i in (0, 2))
