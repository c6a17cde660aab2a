"""What every variant is held against: the closed form in float64, at the very points and without tables."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import integral_map, value_map
from phasewise_studies.spectral_node.closed_form import NODES, integrate_over_concentration, speed_at_nodes
from phasewise_studies.spectral_node.flow import fold, take_flow
from phasewise_studies.spectral_node.metric import christoffel_tangent, take_metric
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.transitions import prepare_training

Batch = Mapping[str, Tensor]
# steps of A in the float64 reference, over concentration
REFERENCE_STEPS = 32


def reference(inputs: Batch, case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """The closed form in float64: arc lengths by Chebyshev quadrature at the very points, no table and no geodesic."""
    cpu = torch.device("cpu")
    waves = data.wavelengths(shape.wavelengths)
    if case == "train":
        from phasewise_studies.spectral_node.training import build_training

        parameters, transitions = prepare_training(inputs, shape, dtype=torch.float64, device=cpu)
        program = build_training(Switches(gradient="closed"), parameters, transitions)
        return Program(
            step=program.step, state=program.state, load=program.load,
            place=lambda batch: {"table": batch["table"], "order": batch["order"]},
        )  # fmt: skip
    if case == "christoffel":
        if items is not None:
            waves = waves[items]
        grid = torch.linspace(-1, 1, shape.columns, dtype=torch.float64)
        return Program(step=lambda metric: {"gamma": christoffel_tangent(metric, grid[None, :], waves[:, None])})
    speeds = speed_at_nodes(take_metric(inputs, dtype=torch.float64, device=cpu), waves, NODES)
    flow = fold(take_flow(inputs, dtype=torch.float64, device=cpu))

    def step(batch: Batch) -> dict[str, Tensor]:
        picked = slice(None) if items is None else items
        start, stop = batch["start"][picked], batch["stop"][picked]
        distance = (integral_map(stop, NODES) - integral_map(start, NODES)) @ speeds.T
        first = value_map(start, NODES) @ speeds.T
        found = {"v0": distance / first}
        if case != "couple":
            return found | {"end": stop[:, None].expand_as(distance)}
        # a transition that stands still takes its time all the same
        still = distance == 0
        ratio = torch.where(still, 1 / first, (stop - start)[:, None] / distance.where(~still, 1.0))
        nodes = []
        for part in torch.linspace(0, 1, 2 * REFERENCE_STEPS + 1, dtype=torch.float64):
            c = start + part * (stop - start)
            speed = value_map(c, NODES) @ speeds.T
            nodes.append((c[:, None].expand_as(speed), distance / speed, ratio * speed))
        return found | {"absorbance": integrate_over_concentration(flow, nodes, batch["absorbance"][picked])}

    return Program(step=step)
