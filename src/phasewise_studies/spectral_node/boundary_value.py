"""The boundary-value problems as programs: one at a time, in a batch, from a grid, in one kernel, by the closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise.kit.graphs import capture
from phasewise.kit.kernels import has_kernel
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, value_map
from phasewise_studies.spectral_node.closed_form import NODES, cast, look_up, make_tables
from phasewise_studies.spectral_node.flow import fold, rate, take_flow
from phasewise_studies.spectral_node.kernels import launch_solvers as kernels
from phasewise_studies.spectral_node.metric import christoffel_tangent, differ, take_metric
from phasewise_studies.spectral_node.product.predict import Predict
from phasewise_studies.spectral_node.shooting import integrate_coupled, integrate_geodesic, shoot, step_geodesic
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.trained import load_trained

Batch = Mapping[str, Tensor]
# RK4 steps that torch.compile unrolls into one kernel on a GPU
COMPILED = 10


def make_constants(
    inputs: Batch, shape: Shape, device: torch.device, *, dtype: torch.dtype | None = None
) -> kernels.Constants:
    """The tables of Gamma, sqrt(g), s and s^-1, computed once in float64, as the document's cell 5 has it; and the flow."""
    dtype = dtype or torch.get_default_dtype()
    waves = data.wavelengths(shape.wavelengths)
    metric = take_metric(inputs, dtype=torch.float64, device=device)
    grid = torch.linspace(-1, 1, shape.columns, dtype=torch.float64)
    nodes = chebyshev_nodes(NODES)
    gamma = (
        christoffel_tangent(metric, nodes[None].to(device), waves[:, None].to(device)).cpu() @ value_map(grid, NODES).T
    )
    tables = make_tables(inputs, waves, shape.columns)
    flow = fold(take_flow(inputs, dtype=dtype, device=device))
    placed = gamma.to(device, dtype).contiguous(), cast(tables, dtype, device)
    return kernels.Constants(*placed, flow, kernels.scale_flow(flow))


def build_solver(switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """A program that gives v0 and c(1), or v0 and A(1) in the case `couple`."""
    coupled = case == "couple"
    names = ("v0", "absorbance") if coupled else ("v0", "end")
    fallbacks: tuple[str, ...] = ()
    if switches.form in ("fused", "closed"):
        step = _kernel_step(switches, make_constants(inputs, shape, device), coupled, shape)
        # the closed form is algebra: without a GPU its plain form is what the phase means
        is_meant = switches.form == "closed" and device.type != "cuda"
        if not is_meant and not has_kernel(device, torch.get_default_dtype()):
            fallbacks = (f"{switches.form}: no kernel for this device, the plain form ran instead",)
    else:
        step = _plain_step(switches, inputs, coupled, shape, device)
    eager = step
    if switches.graph:
        captured = capture(step, _place_solver(device, coupled, inputs))
        size = len(inputs["start"])
        if captured.is_graph:
            step = lambda placed: (captured.call if len(placed["start"]) == size else eager)(placed)  # noqa: E731
        else:
            fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}")
    module = None
    if coupled:
        # the step is timed on drawn networks, as all cases are; what leaves the project is trained where weights of the size are shipped
        trained = load_trained(shape) or inputs
        tables = cast(make_tables(trained, data.wavelengths(shape.wavelengths), shape.columns), torch.float32, device)
        module = Predict(tables, fold(take_flow(trained, dtype=torch.float32, device=device)), shape.steps // 2)
    return Program(
        step=step,
        place=partial(_place_solver, device, coupled),
        # the solver works on (W, P); whoever asks by transition gets a view
        outputs=lambda raw: {name: part.T for name, part in zip(names, raw, strict=True)},
        module=module,
        fallbacks=fallbacks,
    )


def _place_solver(device: torch.device, coupled: bool, batch: Batch) -> dict[str, Tensor]:
    dtype = torch.get_default_dtype()
    placed = {name: batch[name].to(device, dtype) for name in ("start", "stop")}
    if coupled:
        placed["absorbance"] = batch["absorbance"].T.to(device, dtype).contiguous()
    return placed


def _kernel_step(switches: Switches, constants: kernels.Constants, coupled: bool, shape: Shape) -> Callable[[Any], Any]:
    sizes = {"steps": shape.steps, "newton": shape.newton}
    if switches.form == "closed":
        if coupled:
            return lambda p: kernels.closed_couple(
                constants, p["start"], p["stop"], p["absorbance"], steps=shape.steps // 2
            )
        return lambda p: kernels.closed_solve(constants, p["start"], p["stop"])
    if coupled:
        return lambda p: kernels.couple(constants, p["start"], p["stop"], p["absorbance"], **sizes)
    return lambda p: kernels.solve(constants, p["start"], p["stop"], **sizes)


def gamma_function(switches: Switches, inputs: Batch, shape: Shape, wavelengths: Tensor) -> Callable[[Tensor], Tensor]:
    """Gamma of c (..., W) at the given wavelengths (W,): by differences, by the tangent, or from the grid."""
    device, dtype = wavelengths.device, torch.get_default_dtype()
    if switches.gamma == "grid":
        return partial(look_up, make_constants(inputs, shape, device).gamma)
    if switches.gamma == "tangent":
        metric = take_metric(inputs, dtype=dtype, device=device)
        return lambda c: christoffel_tangent(metric, c, wavelengths.to(dtype))
    return differ(switches, take_metric(inputs, dtype=torch.float64, device=device), wavelengths.double())


def compile_integration(
    gamma: Callable[[Tensor], Tensor], steps: int, device: torch.device
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """`integrate_geodesic` under torch.compile, COMPILED steps a call.

    A C++ compiler takes minutes for twenty unrolled steps with their lookups, and two seconds for one.
    """
    at_once = math.gcd(steps, COMPILED) if device.type == "cuda" else 1

    def advance(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(at_once):
            c, v = step_geodesic(gamma, c, v, 1 / steps)
        return c, v

    compiled = torch.compile(advance, dynamic=False, fullgraph=True)

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(steps // at_once):
            c, v = compiled(c, v)
        return c, v

    return integrate


def _plain_step(
    switches: Switches, inputs: Batch, coupled: bool, shape: Shape, device: torch.device
) -> Callable[[Any], Any]:
    waves = data.wavelengths(shape.wavelengths).to(device)
    folded = fold(take_flow(inputs, dtype=torch.get_default_dtype(), device=device))

    def solver(wave: Tensor, flow: Any) -> Callable[..., tuple[Tensor, Tensor]]:
        gamma = gamma_function(switches, inputs, shape, wave)
        integrate = partial(integrate_geodesic, gamma, steps=shape.steps)
        if switches.compiled:
            integrate = compile_integration(gamma, shape.steps, device)

        def solve(start: Tensor, stop: Tensor, a: Tensor | None) -> tuple[Tensor, Tensor]:
            v0, end = shoot(integrate, start, stop, newton=shape.newton, slope=switches.newton)
            if a is None:
                return v0, end
            return v0, integrate_coupled(gamma, partial(rate, flow), start, v0, a, shape.steps)[2]

        return solve

    def spread(level: Tensor) -> Tensor:
        return level[:, None].expand(-1, shape.wavelengths)

    if switches.form == "batched":
        whole = solver(waves, folded)

        def step(placed: Batch) -> tuple[Tensor, Tensor]:
            a = placed["absorbance"].T if coupled else None
            v0, result = whole(spread(placed["start"]).contiguous(), spread(placed["stop"]).contiguous(), a)
            return v0.T, result.T

        return step
    each = [solver(waves[w : w + 1], folded._replace(bias=folded.bias[w : w + 1])) for w in range(shape.wavelengths)]

    def one_by_one(placed: Batch) -> tuple[Tensor, Tensor]:
        found = []
        for w, solve in enumerate(each):
            for start, stop, k in zip(placed["start"], placed["stop"], range(len(placed["start"])), strict=True):
                a = placed["absorbance"][w, k].reshape(1, 1) if coupled else None
                found.append(torch.stack(solve(start.reshape(1, 1), stop.reshape(1, 1), a)))
        v0, result = torch.stack(found).reshape(shape.wavelengths, -1, 2).unbind(-1)
        return v0, result

    return one_by_one
