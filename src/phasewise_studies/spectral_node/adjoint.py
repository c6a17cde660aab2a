"""Gradients by the adjoint equation: [c, v, A] is integrated backwards beside lambda, and nothing is kept.

With y' = F(y, theta): lambda' = -lambda dF/dy and dL/dtheta = int lambda dF/dtheta dt, by RK4 backwards from t = 1.
(L. S. Pontryagin; R. T. Q. Chen et al., "Neural Ordinary Differential Equations", 2018, appendix B.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from phasewise_studies.spectral_node.flow import fold, rate
from phasewise_studies.spectral_node.losses import LENGTH, Parameters, metric_terms
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate
from phasewise_studies.spectral_node.shooting import integrate_coupled, integrate_geodesic, shoot
from phasewise_studies.spectral_node.transitions import Transitions

State = tuple[Tensor, ...]
Field = Callable[[Sequence[Tensor], State], State]


class _Integral(torch.autograd.Function):
    """y(1) of y' = field(weights, y) with the adjoint as its gradient."""

    @staticmethod
    def forward(ctx, field: Field, solve, steps: int, count: int, *tensors: Tensor):
        """y(1) by `solve(weights, y(0))`; the first `count` of `tensors` are the weights, the others y(0), each (P, W)."""
        ctx.field, ctx.steps, ctx.count = field, steps, count
        weights, state = tensors[:count], tensors[count:]
        with torch.no_grad():
            ends = solve(weights, state)
        ctx.save_for_backward(*weights, *ends)
        return ends

    @staticmethod
    def backward(ctx, *slopes: Tensor):
        """Gradients of the weights and of y(0) from those of y(1), in `steps` RK4 steps back: its error is O(1/steps^4)."""
        weights = [weight.detach().requires_grad_() for weight in ctx.saved_tensors[: ctx.count]]
        state = ctx.saved_tensors[ctx.count :]
        size, h = len(state), -1 / ctx.steps
        # (y, lambda, -dL/dtheta), all integrated backwards
        whole = (*state, *slopes, *(torch.zeros_like(weight) for weight in weights))

        def field(all_of_it: State) -> State:
            y = [value.detach().requires_grad_() for value in all_of_it[:size]]
            with torch.enable_grad():
                moved = ctx.field(weights, tuple(y))
            pulled = torch.autograd.grad(moved, (*y, *weights), all_of_it[size : 2 * size], allow_unused=True)
            zero = [torch.zeros_like(value) for value in (*y, *weights)]
            return (*moved, *(-(p if p is not None else z) for p, z in zip(pulled, zero, strict=True)))

        for _ in range(ctx.steps):
            whole = _step(field, tuple(part.detach() for part in whole), h)
        return (None, None, None, None, *whole[2 * size :], *whole[size : 2 * size])


def _step(field: Callable[[State], State], y: State, h: float) -> State:
    k1 = field(y)
    k2 = field(tuple(a + h / 2 * b for a, b in zip(y, k1, strict=True)))
    k3 = field(tuple(a + h / 2 * b for a, b in zip(y, k2, strict=True)))
    k4 = field(tuple(a + h * b for a, b in zip(y, k3, strict=True)))
    return tuple(a + h / 6 * (b + 2 * (c + d) + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4, strict=True))


def adjoint_loss(
    transitions: Transitions, parameters: Parameters, table: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """`unrolled_loss` with the adjoint equation instead of autograd through the steps."""
    _, own = metric_terms(transitions, parameters)
    first, last = transitions.pairs[rows].unbind(1)
    waves, steps, names = len(transitions.wavelengths), transitions.steps, tuple(parameters)
    start, stop = (transitions.levels[level][:, None].expand(-1, waves) for level in (first, last))

    def gamma(weights: Sequence[Tensor], c: Tensor) -> Tensor:
        return christoffel_tangent(dict(zip(names, weights, strict=True)), c, transitions.wavelengths)

    def glide(weights: Sequence[Tensor], y: State) -> State:
        return y[1], -gamma(weights, y[0]) * y[1] * y[1]

    def couple(weights: Sequence[Tensor], y: State) -> State:
        return (*glide(weights, y[:2]), rate(fold(dict(zip(names, weights, strict=True))), *y))

    def run_glide(weights: Sequence[Tensor], y: State) -> State:
        return integrate_geodesic(partial(gamma, weights), *y, steps)

    def run_couple(weights: Sequence[Tensor], y: State) -> State:
        flow = fold(dict(zip(names, weights, strict=True)))
        return integrate_coupled(partial(gamma, weights), partial(rate, flow), *y, steps)

    weights = tuple(parameters.values())
    with torch.no_grad():
        v0, _ = shoot(lambda c, v: run_glide(weights, (c, v)), start, stop, newton=transitions.newton, slope="exact")
    end, speed = _Integral.apply(glide, run_glide, steps, len(weights), *weights, start.contiguous(), v0)
    # one Newton step with gradients: the implicit function theorem
    v0 = v0 - (end - stop) / (speed / v0).detach()
    _, _, absorbed = _Integral.apply(
        couple, run_couple, steps, len(weights), *weights, start.contiguous(), v0, table[first]
    )
    length = evaluate(parameters, start, transitions.wavelengths).sqrt() * v0.abs()
    loss = (absorbed - table[last]).square().mean() + LENGTH * length.mean()
    return loss + own, absorbed
