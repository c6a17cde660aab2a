"""Boundary-value problems by other packages: Gamma from the same grid, Newton's slope from v(1)/v0, the case's steps and iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.spectral_node.boundary_value import build_solver, make_constants
from phasewise_studies.spectral_node.closed_form import look_up
from phasewise_studies.spectral_node.shooting import shoot
from phasewise_studies.spectral_node.switches import Switches

Batch = Mapping[str, Tensor]


def torch_compile(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torch.compile of half an integration (ten steps in one kernel), twice an iteration."""
    return build_solver(
        Switches(form="batched", gamma="grid", newton="exact", compiled=True), inputs, case, shape, device
    )


def torchdiffeq_rk4(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torchdiffeq's fixed-step rk4 (the 3/8 rule), all problems as one state."""
    from torchdiffeq import odeint

    gamma = partial(look_up, make_constants(inputs, shape, device).gamma)
    times = torch.linspace(0, 1, 2, device=device)

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            ends = odeint(lambda t, y: (y[1], -gamma(y[0]) * y[1] * y[1]), (c, v), times, method="rk4",
                          options={"step_size": 1 / shape.steps})  # fmt: skip
        return ends[0][-1], ends[1][-1]

    return make_shooting(integrate, shape, device)


def torchode(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torchode's Tsit5 with a fixed step, one problem a row."""
    import torchode as ode

    gamma = make_constants(inputs, shape, device).gamma

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

    return make_shooting(integrate, shape, device)


def make_shooting(
    integrate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], shape: Shape, device: torch.device
) -> Program:
    """Newton's iteration around `integrate`, (c, v) at 0 -> (c, v) at 1, each (pairs, wavelengths)."""

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

    from phasewise_studies.spectral_node.peers.diffrax_tableau import make_rk4

    gamma = jax.device_put(make_constants(inputs, shape, torch.device("cpu")).gamma.numpy())
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
