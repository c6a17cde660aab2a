"""A training step by another package: the user's document to the letter, dopri5 with its adjoint, rtol 1e-5, atol 1e-7."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.spectral_node.flow import fold, rate
from phasewise_studies.spectral_node.losses import LENGTH, metric_terms
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate
from phasewise_studies.spectral_node.shooting import shoot
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.training import build_training_with
from phasewise_studies.spectral_node.transitions import Transitions, prepare_training

Batch = Mapping[str, Tensor]
# the user's document, cell 2
RTOL, ATOL = 1e-5, 1e-7


def torchdiffeq_adjoint(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """A training step by dopri5 with the adjoint, at the document's tolerances."""
    parameters, transitions = prepare_training(inputs, shape, dtype=torch.get_default_dtype(), device=device)
    return build_training_with(Switches(), parameters, transitions, torchdiffeq_loss)


class _Field(torch.nn.Module):
    """[c, v] or [c, v, A] with its weights as parameters: odeint_adjoint gives gradients to these only."""

    def __init__(self, weights: Mapping[str, Tensor], wavelengths: Tensor, *, coupled: bool) -> None:
        super().__init__()
        self.weights, self.wavelengths, self.coupled = weights, wavelengths, coupled

    def forward(self, t: Tensor, y: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """dy/dt."""
        c, v = y[:2]
        moved = v, -christoffel_tangent(self.weights, c, self.wavelengths) * v * v
        return (*moved, rate(fold(self.weights), *y)) if self.coupled else moved


def torchdiffeq_loss(transitions: Transitions, parameters: Batch, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """`losses.unrolled_loss` with torchdiffeq's dopri5 and its adjoint."""
    from torchdiffeq import odeint, odeint_adjoint

    _, own = metric_terms(transitions, parameters)
    first, last = transitions.pairs[rows].unbind(1)
    waves = len(transitions.wavelengths)
    start, stop = (transitions.levels[level][:, None].expand(-1, waves).contiguous() for level in (first, last))
    times = torch.linspace(0, 1, 2, dtype=start.dtype, device=start.device)
    weights = tuple(parameters.values())
    settings = {"rtol": RTOL, "atol": ATOL, "method": "dopri5"}
    glide, couple = (_Field(parameters, transitions.wavelengths, coupled=coupled) for coupled in (False, True))

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ends = odeint(glide, (c, v), times, **settings)
        return ends[0][-1], ends[1][-1]

    with torch.no_grad():
        v0, _ = shoot(integrate, start, stop, newton=transitions.newton, slope="exact")
    metric = tuple(value for name, value in parameters.items() if name.startswith("metric/"))
    ends = odeint_adjoint(glide, (start, v0), times, adjoint_params=metric, **settings)
    v0 = v0 - (ends[0][-1] - stop) / (ends[1][-1] / v0).detach()
    ends = odeint_adjoint(couple, (start, v0, table[first]), times, adjoint_params=weights, **settings)
    length = evaluate(parameters, start, transitions.wavelengths).sqrt() * v0.abs()
    loss = (ends[2][-1] - table[last]).square().mean() + LENGTH * length.mean()
    return loss + own, ends[2][-1]
