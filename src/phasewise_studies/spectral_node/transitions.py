"""What is learnt from: all transitions between known concentrations, and the quadrature along each. No parameter changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise import Shape
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, integral_map, value_map
from phasewise_studies.spectral_node.flow import take_flow
from phasewise_studies.spectral_node.metric import take_metric

# nodes of the metric while it learns: with the 2-64-128-1 network the last coefficients are 1e-8 of the first
LEARNING_NODES = 32


@dataclass(frozen=True)
class Transitions:
    """Constants of one set of levels; every tensor lies where the parameters do."""

    # (L,) concentrations in [-1, 1], (W,) wavelengths in [-1, 1]
    levels: Tensor
    wavelengths: Tensor
    # (T, 2): level that a transition starts from, level that it ends at
    pairs: Tensor
    # (K,) nodes in c; (T, J, K) and (T, K): sqrt(g) at the nodes -> along each transition, and its integral over it
    nodes: Tensor
    along: Tensor
    over: Tensor
    # (T, J): the concentrations along each transition, J = 2 steps + 1
    path: Tensor
    steps: int
    newton: int

    @property
    def way(self) -> Tensor:
        """stop - start of each transition, (T,)."""
        return self.path[:, -1] - self.path[:, 0]


def all_pairs(count: int) -> Tensor:
    """Ordered pairs of different levels, (count (count - 1), 2)."""
    one, other = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    return torch.stack((one, other), dim=-1)[one != other]


def make_transitions(
    levels: Tensor,
    wavelengths: Tensor,
    pairs: Tensor,
    *,
    steps: int,
    newton: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Transitions:
    """A transitions on `device`; its maps are computed in float64."""
    levels = levels.double().cpu()
    start, stop = levels[pairs[:, 0]], levels[pairs[:, 1]]
    part = torch.linspace(0, 1, 2 * steps + 1, dtype=torch.float64)
    path = start[:, None] + (stop - start)[:, None] * part
    over = integral_map(stop, LEARNING_NODES) - integral_map(start, LEARNING_NODES)
    to = {"dtype": dtype, "device": device}
    return Transitions(
        levels.to(**to), wavelengths.to(**to), pairs.to(device), chebyshev_nodes(LEARNING_NODES).to(**to),
        value_map(path, LEARNING_NODES).to(**to), over.to(**to), path.to(**to), steps, newton,
    )  # fmt: skip


def prepare_training(
    inputs: Mapping[str, Tensor], shape: Shape, *, dtype: torch.dtype, device: torch.device
) -> tuple[dict[str, Tensor], Transitions]:
    """Both networks' parameters and all transitions of the case `train`, on `device`."""
    parameters = take_metric(inputs, dtype=dtype, device=device) | take_flow(inputs, dtype=dtype, device=device)
    transitions = make_transitions(
        data.levels(shape.levels), data.wavelengths(shape.wavelengths), all_pairs(shape.levels),
        steps=shape.steps, newton=shape.newton, dtype=dtype, device=device,
    )  # fmt: skip
    return parameters, transitions
