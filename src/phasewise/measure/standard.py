"""A standard program with a known amount of work, for the doctor: a chain of matrix products and GELUs."""

from __future__ import annotations

import torch

# rows and width by device: on a data-centre GPU a unit takes longer than its two launches, on a core about 20 us
SHAPES = {"cuda": (4096, 2048), "cpu": (64, 64)}
# units of a step; one more is a slow-down of 1 %
UNITS = 100


def make(units: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Activations (rows, width), a weight (width, width) that keeps their size, and the number of units."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, width = SHAPES[device]
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    generator = torch.Generator().manual_seed(0)
    activations = torch.randn(rows, width, generator=generator)
    # E[gelu(z)^2] = 0.425 for standard normal z, so this gain keeps the variance
    weight = torch.randn(width, width, generator=generator) * (0.425 * width) ** -0.5
    return activations.to(device, dtype), weight.to(device, dtype), units


@torch.no_grad()
def step(activations: torch.Tensor, weight: torch.Tensor, units: int) -> torch.Tensor:
    """`units` layers."""
    for _ in range(units):
        activations = torch.nn.functional.gelu(activations @ weight)
    return activations
