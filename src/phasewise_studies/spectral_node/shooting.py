"""Geodesics as the user's document solves them: fixed-step RK4 and shooting with a fixed number of Newton steps.

c' = v, v' = -Gamma(c) v^2 for t in [0, 1], c(0) = start, c(1) = stop; the unknown is v0 = v(0). Along a geodesic g v^2 is
constant. Tensors are (P, W): transitions by wavelengths. `gamma` is any function of c, (P, W) -> (P, W).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Gamma = Callable[[Tensor], Tensor]
Rate = Callable[[Tensor, Tensor, Tensor], Tensor]
Integrate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

# the document's own update: v0 - alpha (c(1) - stop), alpha = 0.5 x 0.8^floor(k/3)
DAMPING, DECAY, PERIOD = 0.5, 0.8, 3
# relative half-step of a slope by differences: Newton forgives an error of the slope, it only costs an iteration
SLOPE_STEP = 1e-2


def step_geodesic(gamma: Gamma, c: Tensor, v: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """One RK4 step of (c, v); the stages of c collapse to c + h v + h^2/6 (a1 + a2 + a3)."""
    a1 = -gamma(c) * v * v
    v2 = v + h / 2 * a1
    a2 = -gamma(c + h / 2 * v) * v2 * v2
    v3 = v + h / 2 * a2
    a3 = -gamma(c + h / 2 * v2) * v3 * v3
    v4 = v + h * a3
    a4 = -gamma(c + h * v3) * v4 * v4
    return c + h * v + h * h / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * (a2 + a3) + a4)


def integrate_geodesic(gamma: Gamma, c: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """(c, v) at t = 1 after `steps` RK4 steps."""
    for _ in range(steps):
        c, v = step_geodesic(gamma, c, v, 1 / steps)
    return c, v


def integrate_coupled(
    gamma: Gamma, rate: Rate, c: Tensor, v: Tensor, a: Tensor, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The coupled state [c, v, A] at t = 1, all three by RK4 with the same steps."""
    h = 1 / steps
    for _ in range(steps):
        b1, k1 = -gamma(c) * v * v, rate(c, v, a)
        c2, v2, a2 = c + h / 2 * v, v + h / 2 * b1, a + h / 2 * k1
        b2, k2 = -gamma(c2) * v2 * v2, rate(c2, v2, a2)
        c3, v3, a3 = c + h / 2 * v2, v + h / 2 * b2, a + h / 2 * k2
        b3, k3 = -gamma(c3) * v3 * v3, rate(c3, v3, a3)
        c4, v4, a4 = c + h * v3, v + h * b3, a + h * k3
        b4, k4 = -gamma(c4) * v4 * v4, rate(c4, v4, a4)
        c = c + h * v + h * h / 6 * (b1 + b2 + b3)
        v = v + h / 6 * (b1 + 2 * (b2 + b3) + b4)
        a = a + h / 6 * (k1 + 2 * (k2 + k3) + k4)
    return c, v, a


def shoot(integrate: Integrate, start: Tensor, stop: Tensor, *, newton: int, slope: str) -> tuple[Tensor, Tensor]:
    """v0 after `newton` iterations from v0 = stop - start, and c(1) of the last integration; no early exit.

    slope: "difference" integrates v0 and a neighbour of it; "exact" uses that a geodesic is the same curve at any speed,
    c(t; v0) = C(v0 t), so that dc1/dv0 = v(1)/v0 = sqrt(g(start)/g(c1)); "damped" is the document's own update.
    """
    v0 = stop - start
    end = start
    for k in range(newton):
        if slope == "difference":
            step = SLOPE_STEP * v0
            ends, _ = integrate(torch.stack((start, start)), torch.stack((v0, v0 + step)))
            end, moved = ends[0], ends[1] - ends[0]
            v0 = v0 - (end - stop) * _divide(step, moved)
        else:
            end, v1 = integrate(start, v0)
            if slope == "exact":
                v0 = v0 - (end - stop) * _divide(v0, v1)
            else:
                v0 = v0 - DAMPING * DECAY ** (k // PERIOD) * (end - stop)
    return v0, end


def _divide(over: Tensor, under: Tensor) -> Tensor:
    # a transition from a level to itself stands still: 0/0, and nothing to correct
    return over / torch.where(under == 0, 1.0, under)
