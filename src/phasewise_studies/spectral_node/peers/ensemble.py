"""Boundary-value problems by cubie: RK4 and right-hand side in one kernel with a thread a problem, Newton's iteration around it in torch.

cubie takes equations in symbols, and parameters that differ from problem to problem: in place of a table Gamma(c) of a wavelength is its Chebyshev series here,
by Clenshaw's recurrence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, coefficient_map
from phasewise_studies.spectral_node.metric import christoffel_tangent, take_metric
from phasewise_studies.spectral_node.peers.geodesics import make_shooting

Batch = Mapping[str, Tensor]
# at the document's sizes it leaves 7e-6 of Gamma, and of v0 and c(1) less than a tenth of what the moderate tier allows
TERMS = 24


def cubie(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """cubie's rk4 with constant steps on arrays that stay on the GPU."""
    from numba_cuda_mlir import cuda

    return solve_with(inputs, shape, device, cuda.as_cuda_array, partial(torch.as_tensor, device=device))


def solve_with(
    inputs: Batch, shape: Shape, device: torch.device, give: Callable[[Tensor], Any], take: Callable[[Any], Tensor]
) -> Program:
    """The program, with the ways of a tensor on `device` to an array of cubie's and back."""
    from cubie import Solver, create_ODE_system
    from cubie.cache_root import set_cache_root

    # else it writes into the folder that it is called in
    folder = tempfile.TemporaryDirectory(prefix="cubie-")
    set_cache_root(folder.name)
    names = [_name(term) for term in range(TERMS)]
    system = create_ODE_system(
        write_equations(), states={"c": 0.0, "v": 0.0}, parameters=dict.fromkeys(names, 0.0), swept_parameters=names,
        name="geodesic",
    )  # fmt: skip
    solver = Solver(system, algorithm="rk4", dt=1 / shape.steps, output_types=["state"])
    series = expand_christoffel(inputs, shape).to(device, torch.float32)
    # (terms, problems), those of a pair side by side
    parameters = give(series[:, None].expand(-1, len(inputs["start"]), -1).flatten(1).contiguous())

    def integrate(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        states = torch.stack((c.flatten(), v.flatten()))
        # its streams are its own
        _wait(device)
        found = solver.solve(give(states), parameters, duration=1.0, on_device=True)
        _wait(device)
        # (times, states, problems); the next call overwrites them
        c, v = take(found.state)[-1].clone().view(2, *c.shape)
        return c, v

    return replace(make_shooting(integrate, shape, device), close=folder.cleanup)


def write_equations() -> list[str]:
    """c' = v, v' = -Gamma(c) v^2 with Gamma = a0 + a1 T1(c) + ..., c outside [-1, 1] counted as the end."""
    last = TERMS - 1
    lines = ["x = Max(-1.0, Min(1.0, c))", f"b{last} = {_name(last)}", f"b{last - 1} = {_name(last - 1)} + 2*x*b{last}"]
    lines += [f"b{term} = {_name(term)} + 2*x*b{term + 1} - b{term + 2}" for term in range(last - 2, 0, -1)]
    return [*lines, "dc = v", f"dv = -({_name(0)} + x*b1 - b2)*v*v"]


def _name(term: int) -> str:
    # cubie sorts parameters by name
    return f"a{term:02d}"


def expand_christoffel(inputs: Batch, shape: Shape) -> Tensor:
    """Chebyshev coefficients of Gamma, (terms, wavelengths), float64."""
    metric = take_metric(inputs, dtype=torch.float64, device=torch.device("cpu"))
    waves = data.wavelengths(shape.wavelengths)
    return coefficient_map(TERMS) @ christoffel_tangent(metric, chebyshev_nodes(TERMS)[None], waves[:, None]).T


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
