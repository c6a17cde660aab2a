"""The spectral neural ODE as programs: inputs, the build of every variant, the reference and the declared work."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape, Unsupported, Work
from phasewise_studies.spectral_node import data, kernels
from phasewise_studies.spectral_node.closed import NODES, integrate_over_concentration, speed_at_nodes
from phasewise_studies.spectral_node.flow import EMBEDDING, HIDDEN, draw_flow, fold, take_flow
from phasewise_studies.spectral_node.lesson import NODES as LESSON_NODES
from phasewise_studies.spectral_node.lesson import all_pairs, make_lesson
from phasewise_studies.spectral_node.metric import christoffel_tangent, draw_metric, take_metric
from phasewise_studies.spectral_node.phases import Switches
from phasewise_studies.spectral_node.solving import build_solver, differ
from phasewise_studies.spectral_node.spectral import chebyshev_nodes, integral_map, value_map
from phasewise_studies.spectral_node.training import build_training

Batch = Mapping[str, Tensor]
# steps of A in the float64 reference, over concentration
REFERENCE_STEPS = 32


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """Float64 parameters, the same for every seed but in `christoffel`, and what changes from batch to batch."""
    draw = torch.Generator().manual_seed(seed)
    fixed = draw if case == "christoffel" else torch.Generator().manual_seed(0)
    metric = draw_metric((shape.first, shape.second), fixed)
    if case == "christoffel":
        return metric
    parameters = metric | draw_flow(shape.wavelengths, fixed)
    if case == "train":
        table = data.synthetic_table(shape.levels, shape.wavelengths, draw)
        order = torch.randperm(shape.levels * (shape.levels - 1), generator=draw)
        return parameters | {"table": table, "order": order}
    if case == "transitions":
        pairs = all_pairs(shape.levels)[torch.randperm(shape.levels * (shape.levels - 1), generator=draw)]
        start, stop = data.levels(shape.levels)[pairs].unbind(1)
    else:
        start, stop = (2 * torch.rand(2, shape.pairs, dtype=torch.float64, generator=draw) - 1).unbind(0)
    batch = {"start": start, "stop": stop}
    if case == "couple":
        batch["absorbance"] = data.absorbance(start[:, None], data.wavelengths(shape.wavelengths))
    return parameters | batch


def build(switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One variant of one case.

    Raises:
        Unsupported: TF32 without tensor cores.
    """
    if switches.difference == "tf32" and device.type != "cuda":
        raise Unsupported("TF32 is a format of tensor cores; on a CPU this would be float32 under another name")
    set_flags(switches)
    if case == "christoffel":
        return _build_christoffel(switches, shape, device)
    if case == "train":
        dtype = torch.get_default_dtype()
        parameters = take_metric(inputs, dtype=dtype, device=device) | take_flow(inputs, dtype=dtype, device=device)
        lesson = make_lesson(
            data.levels(shape.levels), data.wavelengths(shape.wavelengths), all_pairs(shape.levels),
            steps=shape.steps, newton=shape.newton, dtype=dtype, device=device,
        )  # fmt: skip
        return build_training(switches, parameters, lesson)
    return build_solver(switches, inputs, case, shape, device)


def set_flags(switches: Switches) -> None:
    """Global flags, in both directions."""
    torch.backends.cuda.matmul.allow_tf32 = switches.difference == "tf32"
    torch.backends.cudnn.allow_tf32 = False
    # `use_deterministic_algorithms` would import the compiler, seconds of every process
    torch.set_deterministic_debug_mode("default")


def _build_christoffel(switches: Switches, shape: Shape, device: torch.device) -> Program:
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
    if switches.gamma in ("kernel", "nodes") and not is_meant and not kernels.has_kernel(device, dtype):
        fallbacks = ("triton-christoffel: no kernel for this device, the plain tangent ran instead",)

    def step(metric: Batch) -> Tensor:
        if switches.gamma == "nodes":
            return kernels.christoffel(metric, nodes, waves) @ spread
        if switches.gamma == "kernel":
            return kernels.christoffel(metric, grid, waves)
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


def reference(inputs: Batch, case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """The closed form in float64: arc lengths by Chebyshev quadrature at the very points, no table and no geodesic."""
    cpu = torch.device("cpu")
    waves = data.wavelengths(shape.wavelengths)
    if case == "train":
        parameters = take_metric(inputs, dtype=torch.float64, device=cpu) | take_flow(
            inputs, dtype=torch.float64, device=cpu
        )
        lesson = make_lesson(
            data.levels(shape.levels), waves, all_pairs(shape.levels),
            steps=shape.steps, newton=shape.newton, dtype=torch.float64, device=cpu,
        )  # fmt: skip
        program = build_training(Switches(gradient="closed"), parameters, lesson)
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


def work(case: str, shape: Shape) -> Work:
    """The least that is known to be enough: the closed form's arithmetic, inputs once in, results once out."""
    if case == "christoffel":
        entries = shape.wavelengths * shape.columns
        flops = shape.wavelengths * NODES * (4 * shape.first * shape.second + 2 * shape.columns)
        return Work(
            items=entries, flops=flops, bytes=4 * entries, working_set_bytes=4 * entries, dtype="tf32", item="entries"
        )
    if case == "train":
        items = shape.levels * (shape.levels - 1) * shape.wavelengths
        # three products a layer (value and two tangents), thrice for the backward pass; 80 stages of 16 units, 25 FLOPs each
        flops = (
            9 * 2 * shape.first * shape.second * LESSON_NODES * shape.wavelengths + 25 * 16 * 4 * shape.steps * items
        )
        # each weight with both of Adam's moments goes in and out; the table goes in, A(1) out
        metric = (2 + 1) * shape.first + (shape.first + 1) * shape.second + shape.second + 1
        flow = EMBEDDING * shape.wavelengths + HIDDEN * (3 + EMBEDDING + 2) + 1
        moved = 4 * (6 * (metric + flow) + shape.levels * shape.wavelengths + items)
        return Work(items=items, flops=flops, bytes=moved, item="trajectories")
    pairs = shape.levels * (shape.levels - 1) if case == "transitions" else shape.pairs
    items = pairs * shape.wavelengths
    if case == "couple":
        # A in, v0 and A out; 4 stages of 16 units, 7 FLOPs each, for each of n/2 steps
        return Work(
            items=items,
            flops=448 * (shape.steps // 2) * items,
            bytes=12 * items,
            working_set_bytes=12 * items,
            item="problems",
        )
    return Work(items=items, flops=40 * items, bytes=8 * items, working_set_bytes=8 * items, item="problems")
