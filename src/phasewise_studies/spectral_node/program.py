"""The spectral neural ODE as programs: inputs, the build of every variant and the declared work."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape, Unsupported, Work
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.closed_form import NODES
from phasewise_studies.spectral_node.flow import EMBEDDING, HIDDEN, draw_flow
from phasewise_studies.spectral_node.metric import draw_metric
from phasewise_studies.spectral_node.reference import reference
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.transitions import LEARNING_NODES, all_pairs, prepare_training

__all__ = ["build", "make_inputs", "reference", "set_flags", "work"]

Batch = Mapping[str, Tensor]


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
        from phasewise_studies.spectral_node.christoffel_grid import build_grid

        return build_grid(switches, shape, device)
    if case == "train":
        from phasewise_studies.spectral_node.training import build_training

        return build_training(
            switches, *prepare_training(inputs, shape, dtype=torch.get_default_dtype(), device=device)
        )
    from phasewise_studies.spectral_node.boundary_value import build_solver

    return build_solver(switches, inputs, case, shape, device)


def set_flags(switches: Switches) -> None:
    """Global flags, in both directions."""
    torch.backends.cuda.matmul.allow_tf32 = switches.difference == "tf32"
    torch.backends.cudnn.allow_tf32 = False
    # `use_deterministic_algorithms` would import the compiler, seconds of every process
    torch.set_deterministic_debug_mode("default")


def rows(case: str, shape: Shape) -> int:
    """The first dimension of every output: wavelengths of the grid, else pairs of concentrations."""
    return int(shape.wavelengths if case == "christoffel" else shape.pairs)


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
            9 * 2 * shape.first * shape.second * LEARNING_NODES * shape.wavelengths + 25 * 16 * 4 * shape.steps * items
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
