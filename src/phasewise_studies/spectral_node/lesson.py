"""What is learnt: all transitions between known concentrations at all wavelengths, and the loss of the specification.

    mean (A(1) - A_stop)^2 + 0.01 mean (d2g/dc2)^2 + 0.001 mean (relu(0.01 - g) + relu(g - 100)) + 0.001 mean int sqrt(g)|v| dt

Means run over transitions and wavelengths, or over Chebyshev nodes and wavelengths for the terms of the metric alone. The path
length is |D|, the arc length between start and stop. Gradients reach the metric through the path, see closed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from phasewise_studies.spectral_node.closed import integrate_over_concentration
from phasewise_studies.spectral_node.flow import fold, rate
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate, evaluate_curvature
from phasewise_studies.spectral_node.solver import integrate_geodesic, shoot, step_geodesic
from phasewise_studies.spectral_node.spectral import chebyshev_nodes, integral_map, value_map

SMOOTH, BOUND, LENGTH = 0.01, 0.001, 0.001
LOWEST, HIGHEST = 0.01, 100.0
# nodes of the metric while it learns: with the 2-64-128-1 network the last coefficients are 1e-8 of the first
NODES = 32

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class Lesson:
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


def make_lesson(
    levels: Tensor,
    wavelengths: Tensor,
    pairs: Tensor,
    *,
    steps: int,
    newton: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Lesson:
    """A lesson on `device`; its maps are computed in float64."""
    levels = levels.double().cpu()
    start, stop = levels[pairs[:, 0]], levels[pairs[:, 1]]
    part = torch.linspace(0, 1, 2 * steps + 1, dtype=torch.float64)
    path = start[:, None] + (stop - start)[:, None] * part
    over = integral_map(stop, NODES) - integral_map(start, NODES)
    to = {"dtype": dtype, "device": device}
    return Lesson(
        levels.to(**to), wavelengths.to(**to), pairs.to(device), chebyshev_nodes(NODES).to(**to),
        value_map(path, NODES).to(**to), over.to(**to), path.to(**to), steps, newton,
    )  # fmt: skip


def metric_terms(lesson: Lesson, parameters: Parameters) -> tuple[Tensor, Tensor]:
    """sqrt(g) at the nodes, (W, K), and the terms of the loss that only the metric decides."""
    g, bend = evaluate_curvature(parameters, lesson.nodes[None, :], lesson.wavelengths[:, None])
    # under autocast the network answers in half precision; the algebra after it does not
    g, bend = g.to(lesson.nodes.dtype), bend.to(lesson.nodes.dtype)
    outside = torch.relu(LOWEST - g) + torch.relu(g - HIGHEST)
    return g.sqrt(), SMOOTH * bend.square().mean() + BOUND * outside.mean()


Terms = Callable[[Lesson, Parameters], tuple[Tensor, Tensor]]


def closed_loss(lesson: Lesson, parameters: Parameters, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Loss over the transitions `rows` of absorbances (L, W), and A(1) as (R, W): by arc length, no geodesic is integrated."""
    speed, own = metric_terms(lesson, parameters)
    with torch.autocast(speed.device.type, enabled=False):
        start, stop = lesson.pairs[rows].unbind(1)
        # (R, W) and (J, R, W)
        distance = lesson.over[rows] @ speed.T
        speeds = (lesson.along[rows] @ speed.T).transpose(0, 1)
        ratio = lesson.way[rows, None] / distance
        paths = lesson.path[rows].T[:, :, None].expand_as(speeds)
        nodes = [(c, distance / w, ratio * w) for c, w in zip(paths, speeds, strict=True)]
        end = integrate_over_concentration(fold(parameters), nodes, table[start])
        loss = (end - table[stop]).square().mean() + LENGTH * distance.abs().mean()
        return loss + own, end


def unrolled_loss(
    lesson: Lesson, parameters: Parameters, table: Tensor, rows: Tensor, *, recompute: bool = False
) -> tuple[Tensor, Tensor]:
    """The same by shooting and autograd through every RK4 step of [c, v, A].

    v0 is found without gradients; one more Newton step with them gives v0 the gradient of the implicit function theorem.
    `recompute` keeps the state at step ends only and does each step twice.
    """
    _, own = metric_terms(lesson, parameters)
    first, last = lesson.pairs[rows].unbind(1)
    waves = len(lesson.wavelengths)
    start, stop = (lesson.levels[level][:, None].expand(-1, waves) for level in (first, last))
    flow = fold(parameters)

    def gamma(c: Tensor) -> Tensor:
        return christoffel_tangent(parameters, c, lesson.wavelengths)

    with torch.no_grad():
        v0, _ = shoot(
            lambda c, v: integrate_geodesic(gamma, c, v, lesson.steps), start, stop, newton=lesson.newton, slope="exact"
        )
    h = 1 / lesson.steps

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
        for _ in range(lesson.steps):
            state = checkpoint(step, *state, use_reentrant=False) if recompute else step(*state)
        return state

    end, speed = run(glide, start, v0)
    slope = (speed / v0).detach()
    v0 = v0 - (end - stop) / slope
    _, _, absorbed = run(couple, start, v0, table[first])
    length = evaluate(parameters, start, lesson.wavelengths).sqrt() * v0.abs()
    loss = (absorbed - table[last]).square().mean() + LENGTH * length.mean()
    return loss + own, absorbed


def fused_loss(
    lesson: Lesson, parameters: Parameters, table: Tensor, rows: Tensor, *, terms: Terms = metric_terms
) -> tuple[Tensor, Tensor]:
    """`closed_loss` with everything between sqrt(g) on the paths and the squared error in one kernel, see absorb.py.

    `terms` is `metric_terms`, or a compiled form of it.
    """
    from phasewise_studies.spectral_node.absorb import absorb

    speed, own = terms(lesson, parameters)
    start, stop = lesson.pairs[rows].unbind(1)
    along = lesson.along[rows].transpose(0, 1)
    distance = speed @ lesson.over[rows].T
    speeds = (speed @ along.reshape(-1, along.shape[-1]).T).reshape(len(speed), *along.shape[:2])
    error, end = absorb(speeds, distance, lesson.path[rows].T, table[start], table[stop], fold(parameters))
    return error + LENGTH * distance.abs().mean() + own, end
