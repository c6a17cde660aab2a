"""Other packages' way to do the same work, each with its solver as its own documentation recommends for a GPU.

All take Gamma from the same grid and Newton's slope from v(1)/v0; steps and iterations are the case's. torchdiffeq-adjoint is the
user's document to the letter: dopri5, rtol 1e-5, atol 1e-7, adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.closed import look_up
from phasewise_studies.spectral_node.flow import fold, rate, take_flow
from phasewise_studies.spectral_node.lesson import LENGTH, Lesson, all_pairs, make_lesson, metric_terms
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate, take_metric
from phasewise_studies.spectral_node.phases import Switches
from phasewise_studies.spectral_node.solver import shoot
from phasewise_studies.spectral_node.solving import build_solver, make_ready
from phasewise_studies.spectral_node.training import build_training_with

Batch = Mapping[str, Tensor]
# the user's document, cell 2
RTOL, ATOL = 1e-5, 1e-7


def torch_compile(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torch.compile of half an integration (ten steps in one kernel), twice an iteration."""
    return build_solver(
        Switches(form="batched", gamma="grid", newton="exact", compiled=True), inputs, case, shape, device
    )


def torchdiffeq_rk4(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torchdiffeq's fixed-step rk4 (the 3/8 rule), all problems as one state."""
    from torchdiffeq import odeint

    gamma = partial(look_up, make_ready(inputs, shape, device).gamma)
    times = torch.linspace(0, 1, 2, device=device)

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            ends = odeint(lambda t, y: (y[1], -gamma(y[0]) * y[1] * y[1]), (c, v), times, method="rk4",
                          options={"step_size": 1 / shape.steps})  # fmt: skip
        return ends[0][-1], ends[1][-1]

    return _shooting(integrate, shape, device)


def torchode(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torchode's Tsit5 with a fixed step, one problem a row."""
    import torchode as ode

    gamma = make_ready(inputs, shape, device).gamma

    def field(t: Tensor, y: Tensor) -> Tensor:
        c, v = (part.reshape(-1, shape.wavelengths) for part in y.unbind(1))
        return torch.stack((v.flatten(), (-look_up(gamma, c) * v * v).flatten()), dim=1)

    term = ode.ODETerm(field)
    solver = ode.AutoDiffAdjoint(ode.Tsit5(term=term), ode.FixedStepController())

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        rows = c.numel()
        bounds = {"t_start": torch.zeros(rows, device=device), "t_end": torch.ones(rows, device=device)}
        problem = ode.InitialValueProblem(y0=torch.stack((c.flatten(), v.flatten()), dim=1), **bounds)
        with torch.no_grad():
            found = solver.solve(problem, dt0=torch.full((rows,), 1 / shape.steps, device=device)).ys[:, -1]
        return found[:, 0].reshape(c.shape), found[:, 1].reshape(c.shape)

    return _shooting(integrate, shape, device)


def _shooting(
    integrate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], shape: Shape, device: torch.device
) -> Program:
    def place(batch: Batch) -> tuple[Tensor, Tensor]:
        one, other = (batch[name].to(device, torch.float32)[:, None] for name in ("start", "stop"))
        return one.expand(-1, shape.wavelengths).contiguous(), other.expand(-1, shape.wavelengths).contiguous()

    def step(placed: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        v0, end = shoot(integrate, *placed, newton=shape.newton, slope="exact")
        return {"v0": v0, "end": end}

    return Program(step=step, place=place)


def diffrax(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """diffrax: classical RK4 as a tableau, constant steps, all iterations inside one jit, vmapped over the problems."""
    import diffrax as dfx
    import jax
    import jax.numpy as jnp

    from phasewise_studies.spectral_node.tableau import make_rk4

    gamma = jax.device_put(make_ready(inputs, shape, torch.device("cpu")).gamma.numpy())
    columns = shape.columns

    def field(t: Any, y: Any, row: Any) -> Any:
        c, v = y
        position = (jnp.clip(c, -1, 1) + 1) * ((columns - 1) / 2)
        left = jnp.minimum(jnp.floor(position), columns - 2)
        at = row * columns + left.astype(jnp.int32)
        low = gamma.reshape(-1)[at]
        return v, -(low + (position - left) * (gamma.reshape(-1)[at + 1] - low)) * v * v

    term, solver = dfx.ODETerm(field), make_rk4()

    def one(start: Any, stop: Any, row: Any) -> Any:
        def iterate(_: Any, state: Any) -> Any:
            v0, _ = state
            found = dfx.diffeqsolve(
                term, solver, 0.0, 1.0, 1 / shape.steps, (start, v0), args=row, saveat=dfx.SaveAt(t1=True),
                stepsize_controller=dfx.ConstantStepSize(), max_steps=shape.steps + 1, throw=False,
                adjoint=dfx.ForwardMode(),
            ).ys  # fmt: skip
            end, v1 = found[0][-1], found[1][-1]
            return v0 - (end - stop) * jnp.where(v1 == 0, 0.0, v0 / jnp.where(v1 == 0, 1.0, v1)), end

        return jax.lax.fori_loop(0, shape.newton, iterate, (stop - start, start))

    rows = jnp.arange(shape.wavelengths, dtype=jnp.int32)
    solve = jax.jit(jax.vmap(jax.vmap(one, (None, None, 0)), (0, 0, None)))
    pending: list[Any] = []

    def step(placed: tuple[Any, Any]) -> Any:
        pending[:] = [solve(*placed, rows)]
        return pending[0]

    def sync() -> None:
        for found in pending:
            jax.block_until_ready(found)

    return Program(
        step=step,
        place=lambda batch: tuple(jax.device_put(batch[name].float().numpy()) for name in ("start", "stop")),
        outputs=lambda raw: {name: torch.from_dlpack(part) for name, part in zip(("v0", "end"), raw, strict=True)},
        sync=sync,
    )


def torchdiffeq_adjoint(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """A training step by dopri5 with the adjoint, at the document's tolerances."""
    dtype = torch.get_default_dtype()
    parameters = take_metric(inputs, dtype=dtype, device=device) | take_flow(inputs, dtype=dtype, device=device)
    lesson = make_lesson(
        data.levels(shape.levels), data.wavelengths(shape.wavelengths), all_pairs(shape.levels),
        steps=shape.steps, newton=shape.newton, dtype=dtype, device=device,
    )  # fmt: skip
    return build_training_with(Switches(), parameters, lesson, torchdiffeq_loss)


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


def torchdiffeq_loss(lesson: Lesson, parameters: Batch, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """`lesson.unrolled_loss` with torchdiffeq's dopri5 and its adjoint."""
    from torchdiffeq import odeint, odeint_adjoint

    _, own = metric_terms(lesson, parameters)
    first, last = lesson.pairs[rows].unbind(1)
    waves = len(lesson.wavelengths)
    start, stop = (lesson.levels[level][:, None].expand(-1, waves).contiguous() for level in (first, last))
    times = torch.linspace(0, 1, 2, dtype=start.dtype, device=start.device)
    weights = tuple(parameters.values())
    settings = {"rtol": RTOL, "atol": ATOL, "method": "dopri5"}
    glide, couple = (_Field(parameters, lesson.wavelengths, coupled=coupled) for coupled in (False, True))

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ends = odeint(glide, (c, v), times, **settings)
        return ends[0][-1], ends[1][-1]

    with torch.no_grad():
        v0, _ = shoot(integrate, start, stop, newton=lesson.newton, slope="exact")
    metric = tuple(value for name, value in parameters.items() if name.startswith("metric/"))
    ends = odeint_adjoint(glide, (start, v0), times, adjoint_params=metric, **settings)
    v0 = v0 - (ends[0][-1] - stop) / (ends[1][-1] / v0).detach()
    ends = odeint_adjoint(couple, (start, v0, table[first]), times, adjoint_params=weights, **settings)
    length = evaluate(parameters, start, lesson.wavelengths).sqrt() * v0.abs()
    loss = (ends[2][-1] - table[last]).square().mean() + LENGTH * length.mean()
    return loss + own, ends[2][-1]
