"""Small systems that the tests of painn share."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.painn.layout import Atoms, Sizes
from phasewise_studies.painn.weights import draw_weights

SMALL = Sizes(features=16)


def draw_molecule(atoms: int, seed: int, spread: float = 0.7) -> tuple[Tensor, Tensor]:
    """Positions (N, 3) on a jittered grid of about 1.3 A, and numbers of H, C, N, O."""
    generator = torch.Generator().manual_seed(seed)
    side = -(-round(atoms ** (1 / 3) + 0.5) // 1)
    grid = torch.cartesian_prod(*(torch.arange(side, dtype=torch.float64),) * 3)[:atoms] * 1.4
    jitter = torch.rand(atoms, 3, dtype=torch.float64, generator=generator) - 0.5
    species = torch.tensor([1, 6, 7, 8])[torch.randint(0, 4, (atoms,), generator=generator)]
    return grid + spread * jitter, species


def join(systems: list[tuple[Tensor, Tensor]], cell: Tensor | None = None) -> Atoms:
    """A batch of molecules."""
    counts = torch.tensor([len(numbers) for _, numbers in systems])
    return Atoms(
        positions=torch.cat([positions for positions, _ in systems]),
        numbers=torch.cat([numbers for _, numbers in systems]).int(),
        system=torch.repeat_interleave(torch.arange(len(systems)), counts).int(),
        start=torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int(),
        cell=cell,
    )


def small_weights(sizes: Sizes = SMALL) -> dict[str, Tensor]:
    """Seeded float64 weights with reference energies."""
    weights = draw_weights(sizes, seed=7)
    weights["atomref"] = torch.linspace(-5, 5, 100, dtype=torch.float64)
    return weights
