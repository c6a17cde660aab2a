"""The loss of the specification over transitions, and four ways to its gradient: this file holds three, adjoint.py the other.

    mean (A(1) - A_stop)^2 + 0.01 mean (d2g/dc2)^2 + 0.001 mean (relu(0.01 - g) + relu(g - 100)) + 0.001 mean int sqrt(g)|v| dt

Means run over transitions and wavelengths, or over Chebyshev nodes and wavelengths for the terms of the metric alone. The path
length is |D|, the arc length between start and stop. Gradients reach the metric through the path, see closed_form.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from phasewise_studies.spectral_node.closed_form import integrate_over_concentration
from phasewise_studies.spectral_node.flow import fold, rate
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate, evaluate_curvature
from phasewise_studies.spectral_node.shooting import integrate_geodesic, shoot, step_geodesic
from phasewise_studies.spectral_node.transitions import Transitions

SMOOTH, BOUND, LENGTH = 0.01, 0.001, 0.001
LOWEST, HIGHEST = 0.01, 100.0

Parameters = Mapping[str, Tensor]


def metric_terms(transitions: Transitions, parameters: Parameters) -> tuple[Tensor, Tensor]:
    """sqrt(g) at the nodes, (W, K), and the terms of the loss that only the metric decides."""
    g, bend = evaluate_curvature(parameters, transitions.nodes[None, :], transitions.wavelengths[:, None])
    # under autocast the network answers in half precision; the algebra after it does not
    g, bend = g.to(transitions.nodes.dtype), bend.to(transitions.nodes.dtype)
    outside = torch.relu(LOWEST - g) + torch.relu(g - HIGHEST)
    return g.sqrt(), SMOOTH * bend.square().mean() + BOUND * outside.mean()


Terms = Callable[[Transitions, Parameters], tuple[Tensor, Tensor]]


def closed_loss(transitions: Transitions, parameters: Parameters, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Loss over the transitions `rows` of absorbances (L, W), and A(1) as (R, W): by arc length, no geodesic is integrated."""
    speed, own = metric_terms(transitions, parameters)
    with torch.autocast(speed.device.type, enabled=False):
        start, stop = transitions.pairs[rows].unbind(1)
        # (R, W) and (J, R, W)
        distance = transitions.over[rows] @ speed.T
        speeds = (transitions.along[rows] @ speed.T).transpose(0, 1)
        ratio = transitions.way[rows, None] / distance
        paths = transitions.path[rows].T[:, :, None].expand_as(speeds)
        nodes = [(c, distance / w, ratio * w) for c, w in zip(paths, speeds, strict=True)]
        end = integrate_over_concentration(fold(parameters), nodes, table[start])
        loss = (end - table[stop]).square().mean() + LENGTH * distance.abs().mean()
        return loss + own, end


def unrolled_loss(
    transitions: Transitions, parameters: Parameters, table: Tensor, rows: Tensor, *, recompute: bool = False
) -> tuple[Tensor, Tensor]:
    """The same by shooting and autograd through every RK4 step of [c, v, A].

    v0 is found without gradients; one more Newton step with them gives v0 the gradient of the implicit function theorem.
    `recompute` keeps the state at step ends only and does each step twice.
    """
    _, own = metric_terms(transitions, parameters)
    first, last = transitions.pairs[rows].unbind(1)
    waves = len(transitions.wavelengths)
    start, stop = (transitions.levels[level][:, None].expand(-1, waves) for level in (first, last))
    flow = fold(parameters)

    def gamma(c: Tensor) -> Tensor:
        return christoffel_tangent(parameters, c, transitions.wavelengths)

    with torch.no_grad():
        v0, _ = shoot(
            lambda c, v: integrate_geodesic(gamma, c, v, transitions.steps),
            start,
            stop,
            newton=transitions.newton,
            slope="exact",
        )
    h = 1 / transitions.steps

    def glide(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return step_geodesic(gamma, c, v, h)

    def couple(c: Tensor, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        middle, speed = step_geodesic(gamma, c, v, h / 2)
        end, last_speed = step_geodesic(gamma, middle, speed, h / 2)
        nodes = [(c, v, h), (middle, speed, h), (end, last_speed, h)]
        k1 = rate(flow, *nodes[0][:2], a)
        k2 = rate(flow, *nodes[1][:2], a + h / 2 * k1)
        k3 = rate(flow, *nodes[1][:2], a + h / 2 * k2)
        k4 = rate(flow, *nodes[2][:2], a + h * k3)
        return end, last_speed, a + h / 6 * (k1 + 2 * (k2 + k3) + k4)

    def run(step, *state: Tensor) -> tuple[Tensor, ...]:
        for _ in range(transitions.steps):
            state = checkpoint(step, *state, use_reentrant=False) if recompute else step(*state)
        return state

    end, speed = run(glide, start, v0)
    slope = (speed / v0).detach()
    v0 = v0 - (end - stop) / slope
    _, _, absorbed = run(couple, start, v0, table[first])
    length = evaluate(parameters, start, transitions.wavelengths).sqrt() * v0.abs()
    loss = (absorbed - table[last]).square().mean() + LENGTH * length.mean()
    return loss + own, absorbed


def fused_loss(
    transitions: Transitions, parameters: Parameters, table: Tensor, rows: Tensor, *, terms: Terms = metric_terms
) -> tuple[Tensor, Tensor]:
    """`closed_loss` with everything between sqrt(g) on the paths and the squared error in one kernel, see kernels/absorbance.py.

    `terms` is `metric_terms`, or a compiled form of it.
    """
    from phasewise_studies.spectral_node.kernels.absorbance import absorb

    speed, own = terms(transitions, parameters)
    start, stop = transitions.pairs[rows].unbind(1)
    along = transitions.along[rows].transpose(0, 1)
    distance = speed @ transitions.over[rows].T
    speeds = (speed @ along.reshape(-1, along.shape[-1]).T).reshape(len(speed), *along.shape[:2])
    error, end = absorb(speeds, distance, transitions.path[rows].T, table[start], table[stop], fold(parameters))
    return error + LENGTH * distance.abs().mean() + own, end
