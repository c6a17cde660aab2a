"""What a window is: the constants, the sizes, and the plain pieces that every engine shares.

Legend: P phases (free, nudged and, where nudging is symmetric, nudged the other way), S steps, B tokens, n coordinates,
K bank rows, d numbers of a row's state, X = Y the grid, D x D the inner components of the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise import Shape

# constants of the specification, section 4.A; the first five are the document's own configuration
EPS = 1e-8
BETA = 5.0
ETA_OVER_BETA_NUDGE = 1e-2 / 1e-3
NUDGE_SCALE = 0.1
ROTOR_RATE = 0.01
HBAR, MASS, DT = 0.1, 1.0, 0.005
ALPHA, LAMBDA_F, HISTORY = 0.5, 0.05, 20
# strength of what the retrieved state does to the field in mode `feedback`, as that of the nudge: at 1 the coordinates run to
# four times the tokens, every nudge shortens them, and the metric lies at its floor by window 18
SOURCE = 0.1
# share of a token's own state in the row that it leaves in the bank; the rest is what it retrieved
BLEND = 0.5
METRIC_LEAST, METRIC_MOST = 0.01, 100.0
COORDINATES, ROTOR_PLANES = 8, 6
# what one step adds to the field for a source of one: dt/(i hbar) times i SOURCE
SOURCE_STEP = DT / HBAR * SOURCE


@dataclass(frozen=True)
class Sizes:
    """Sizes of a window; `feedback` lets the retrieved state drive the field, `symmetric` adds the phase nudged backwards."""

    batch: int
    steps: int
    bank: int
    state: int
    grid: int
    inner: int
    filled: int
    feedback: bool
    symmetric: bool = False

    @property
    def signs(self) -> tuple[float, ...]:
        """The nudge of each phase, in units of NUDGE_SCALE."""
        return (0.0, 1.0, -1.0) if self.symmetric else (0.0, 1.0)

    @property
    def phases(self) -> int:
        return len(self.signs)

    @property
    def points(self) -> int:
        return self.grid * self.grid

    @property
    def components(self) -> int:
        return self.inner * self.inner


@dataclass(frozen=True)
class Window:
    """A window to run, with its state under canonical names."""

    run: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    state: Callable[[], dict[str, Tensor]]
    load: Callable[[Mapping[str, Tensor]], None]


def read_sizes(shape: Shape) -> Sizes:
    """The sizes of a case."""
    return Sizes(**dict(shape))


def memory_weight(step: int) -> float:
    """w_t = clamp(alpha ln(1 + min(t, 20)) lambda_F, 0, 1): how much of the field's history holds it back."""
    return min(max(ALPHA * math.log(1 + min(step, HISTORY)) * LAMBDA_F, 0.0), 1.0)


def hop(step: int) -> float:
    """a_t of one step T <- T - i a_t lap T: (1 - w_t) dt / (2 m)."""
    return (1.0 - memory_weight(step)) * DT / (2.0 * MASS)


def laplacian(field: Tensor) -> Tensor:
    """Five-point Laplacian of the first two axes, periodic, grid spacing one."""
    return field.roll(1, 0) + field.roll(-1, 0) + field.roll(1, 1) + field.roll(-1, 1) - 4 * field


def list_planes(coordinates: int = COORDINATES, planes: int = ROTOR_PLANES) -> list[list[tuple[int, int]]]:
    """Layers of disjoint pairs: layer s holds (2p + s, 2p + s + 1) mod n, until there are `planes` of them."""
    layers: list[list[tuple[int, int]]] = []
    left, half = planes, coordinates // 2
    while left > 0:
        s = len(layers)
        layers.append([((2 * p + s) % coordinates, (2 * p + s + 1) % coordinates) for p in range(min(half, left))])
        left -= half
    return layers


def index_layers(device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    """The same layers as index tensors: first and second coordinates of the planes of each."""
    return tuple(
        (torch.tensor([i for i, _ in layer], device=device), torch.tensor([j for _, j in layer], device=device))
        for layer in list_planes()
    )


def rotate_by_layers(points: Tensor, theta: Tensor, layers: tuple[tuple[Tensor, Tensor], ...]) -> Tensor:
    """G(theta) applied to the last axis, a layer of planes at a time; the planes of a layer share no coordinate."""
    first = 0
    for i, j in layers:
        angle = theta[first : first + len(i)]
        cos, sin = angle.cos(), angle.sin()
        x, y = points[..., i], points[..., j]
        points = points.clone()
        points[..., i] = cos * x - sin * y
        points[..., j] = sin * x + cos * y
        first += len(i)
    return points


def update_geometry(
    metric: Tensor, theta: Tensor, velocity: Tensor, contrast: Tensor, layers: tuple[tuple[Tensor, Tensor], ...]
) -> tuple[Tensor, Tensor]:
    """The metric and the angles after a window, without autograd and without a wait for the device.

    Args:
        metric: (n,), the diagonal metric; theta: (k,), the rotor's angles.
        velocity: (n,), the rotated mean velocity of the free phase.
        contrast: (), LIoR of the nudged phase minus LIoR of the free one.
        layers: the coordinates of the rotor's planes.
    """
    push = ETA_OVER_BETA_NUDGE * contrast
    share = velocity.square() / velocity.square().sum()
    metric = (metric + push * share).clamp(METRIC_LEAST, METRIC_MOST)
    x, y = (torch.cat([velocity[side] for side in sides]) for sides in zip(*layers, strict=True))
    theta = theta - ROTOR_RATE * push * torch.atan2(y, x) * torch.sqrt(x.square() + y.square())
    # wrapped into [-pi, pi)
    theta = torch.remainder(theta + math.pi, 2 * math.pi) - math.pi
    return metric, theta


def contrast_phases(lior: Tensor) -> Tensor:
    """D from the LIoR of each phase, (P,): nudged minus free, or half of nudged minus nudged backwards."""
    return (lior[1] - lior[2]) / 2 if lior.shape[0] == 3 else lior[1] - lior[0]
