"""The grid of Gamma as programs: by finite differences, by the exact tangent, in one kernel, from Chebyshev nodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise.kit.kernels import has_kernel
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, value_map
from phasewise_studies.spectral_node.closed_form import NODES
from phasewise_studies.spectral_node.kernels.launch_christoffel import christoffel
from phasewise_studies.spectral_node.metric import christoffel_tangent, differ, take_metric
from phasewise_studies.spectral_node.switches import Switches

Batch = Mapping[str, Tensor]


def build_grid(switches: Switches, shape: Shape, device: torch.device) -> Program:
    """A program whose step gives Gamma (W, N) on an even grid of N concentrations from the parameters of the metric."""
    dtype = torch.get_default_dtype()
    waves = data.wavelengths(shape.wavelengths).to(device, dtype)
    grid = torch.linspace(-1, 1, shape.columns, dtype=torch.float64).to(device, dtype)
    nodes = chebyshev_nodes(NODES).to(device, dtype)
    spread = (
        value_map(torch.linspace(-1, 1, shape.columns, dtype=torch.float64), NODES).T.to(device, dtype).contiguous()
    )
    fallbacks: tuple[str, ...] = ()
    # nodes are algebra: without a GPU the plain tangent at the nodes is what the phase means
    is_meant = switches.gamma == "nodes" and device.type != "cuda"
    if switches.gamma in ("kernel", "nodes") and not is_meant and not has_kernel(device, dtype):
        fallbacks = ("triton-christoffel: no kernel for this device, the plain tangent ran instead",)

    def step(metric: Batch) -> Tensor:
        if switches.gamma == "nodes":
            return christoffel(metric, nodes, waves) @ spread
        if switches.gamma == "kernel":
            return christoffel(metric, grid, waves)
        if switches.gamma == "tangent":
            return christoffel_tangent(metric, grid[None, :], waves[:, None])
        if switches.form == "batched":
            return differ(switches, metric, waves[:, None])(grid[None, :])
        # one wavelength after the other
        return torch.stack([differ(switches, metric, wave)(grid) for wave in waves])

    exact = switches.gamma == "difference" and switches.difference == "float64"

    def place(batch: Batch) -> dict[str, Tensor]:
        return take_metric(batch, dtype=torch.float64 if exact else dtype, device=device)

    return Program(step=step, place=place, outputs=lambda raw: {"gamma": raw}, fallbacks=fallbacks)
