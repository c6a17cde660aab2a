"""PaiNN as programs: inputs, the build of every variant, and the declared work; the float64 reference is in `reference.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.graphs import capture
from phasewise_studies.painn.assembly import compile_if
from phasewise_studies.painn.counts import count_bytes, count_edges, count_flops
from phasewise_studies.painn.data import Batch, as_atoms, make_batch, mass_table
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.motion import leapfrog_of
from phasewise_studies.painn.reference import reference
from phasewise_studies.painn.results import describe_list, select_results
from phasewise_studies.painn.streams import run_on_streams, split_systems
from phasewise_studies.painn.switches import Switches
from phasewise_studies.painn.weights import choose_weights

__all__ = ["audit", "build", "make_inputs", "reference", "work"]

Placed = dict[str, Tensor]


def make_inputs(case: str, shape: Shape, seed: int) -> Batch:
    """Systems of the case; other seeds are other frames of the same systems."""
    return make_batch(shape, seed)


def build(switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One variant: placed systems -> energies, forces, or what the case asks for."""
    example = to_device(inputs, device)
    if switches.streams > 1:
        return _build_streams(switches, inputs, shape, device)
    if not switches.batched:
        return _build_loop(switches, inputs, shape, device)
    step, fallbacks = _make_step(switches, example, shape)
    if switches.graph:
        captured = capture(step, example)
        step = _replay_where_it_fits(captured.call, step, example)
        if captured.reason:
            fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}")
    module = _make_module(example, shape) if case == "aspirin" and switches.forces == "analytic" else None
    return Program(
        step=step,
        place=lambda batch: to_device(batch, device),
        outputs=_outputs(shape),
        fallbacks=fallbacks,
        module=module,
    )


def work(case: str, shape: Shape) -> Work:
    """Operations and bytes of the pruned model with exact filters, each layer a kernel each way."""
    atoms, edges, systems = count_edges(shape)
    if shape.task == "list":
        # positions read once; two int32 and three float32 written for each edge
        size = 24 * atoms + 20 * edges
        return Work(items=atoms, flops=0, bytes=size, working_set_bytes=size, item="atoms")
    forces = shape.task != "energy"
    size = count_bytes(atoms, edges, shape.features, forces=forces)
    items, item = (systems, "molecules") if "cell" not in make_inputs(case, shape, 0) else (atoms, "atoms")
    return Work(
        items=items,
        flops=count_flops(atoms, edges, shape.features, forces=forces),
        bytes=size,
        working_set_bytes=size,
        item=item,
    )


def to_device(batch: Batch, device: torch.device) -> Placed:
    """Positions, cells and velocities stay float64; what counts or numbers is int32."""
    return {
        name: tensor.to(device=device, dtype=torch.float64 if tensor.is_floating_point() else torch.int32)
        for name, tensor in batch.items()
    }


def _make_step(switches: Switches, example: Placed, shape: Shape) -> tuple[Callable[[Placed], Any], tuple[str, ...]]:
    weights, sizes = choose_weights(shape.features)
    atoms = as_atoms(example)
    engine = make_engine(switches, weights, sizes, atoms, forces=shape.task != "energy")
    if shape.task == "list":

        def search(placed: Placed) -> dict[str, Tensor]:
            edges = engine.find(as_atoms(placed))
            return {"row_ptr": edges.row_ptr, "i": edges.i, "j": edges.j, "r": edges.r}

        return search, tuple(reason for reason in engine.fallbacks if "neighbours" in reason)
    device = atoms.positions.device
    table, move = mass_table(device), compile_if(leapfrog_of, switches.compiled and device.type == "cuda")

    def step(placed: Placed) -> dict[str, Tensor]:
        result = engine.evaluate(as_atoms(placed))
        return select_results(result.energy, result.forces, placed, shape, table, move)

    return step, engine.fallbacks


def _build_loop(switches: Switches, inputs: Batch, shape: Shape, device: torch.device) -> Program:
    """One system after the other, each with a list of its own length."""
    # the largest system tells how many candidates an atom may have
    largest = max(split_systems(inputs, len(inputs["start"]) - 1), key=lambda part: len(part["numbers"]))
    step, fallbacks = _make_step(switches, to_device(largest, device), shape)

    def place(batch: Batch) -> list[Placed]:
        return [to_device(part, device) for part in split_systems(batch, len(batch["start"]) - 1)]

    return Program(
        step=lambda placed: [step(part) for part in placed],
        place=place,
        outputs=partial(_join_systems, shape),
        fallbacks=fallbacks,
    )


def _build_streams(switches: Switches, inputs: Batch, shape: Shape, device: torch.device) -> Program:
    """Parts of the batch side by side."""

    def place(batch: Batch) -> list[Placed]:
        return [to_device(part, device) for part in split_systems(batch, switches.streams)]

    made = [_make_step(switches, part, shape) for part in place(inputs)]
    step, fallbacks = run_on_streams([step for step, _ in made], device), made[0][1]
    if device.type != "cuda":
        fallbacks = (*fallbacks, "multi-stream: no NVIDIA GPU, the parts ran one after the other")
    if switches.graph:
        captured = capture(step, place(inputs))
        step = captured.call
        if captured.reason:
            fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}")
    return Program(step=step, place=place, outputs=_join, fallbacks=fallbacks)


def _replay_where_it_fits(replay: Any, eager: Any, example: Placed) -> Any:
    """Replays the graph for batches of the captured sizes, and launches eagerly for others."""
    sizes = {name: tensor.shape for name, tensor in example.items()}

    def step(placed: Placed) -> Any:
        fits = {name: tensor.shape for name, tensor in placed.items()} == sizes
        return (replay if fits else eager)(placed)

    return step


def _outputs(shape: Shape, first: int = 0) -> Callable[[Any], dict[str, Tensor]]:
    """`first`: number of the first atom, where the result is of one system of several."""

    def named(raw: dict[str, Tensor]) -> dict[str, Tensor]:
        if shape.task != "list":
            return raw
        count = int(raw["row_ptr"][-1])
        return {"i": raw["i"][:count] + first, "r": raw["r"][:count]}

    return named


def audit(inputs: Batch, outputs: Batch, case: str, shape: Shape) -> dict[str, Tensor]:
    """A list of neighbours as it is compared, without its order; the judge runs it."""
    if shape.task != "list":
        return dict(outputs)
    return describe_list(outputs["i"], outputs["r"], len(inputs["numbers"]))


def _join_systems(shape: Shape, raw: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Results of one system after the other; atoms of a list are numbered through."""
    sizes = [len(part["row_ptr"]) - 1 if shape.task == "list" else 0 for part in raw]
    starts = itertools.accumulate(sizes, initial=0)
    return _join([_outputs(shape, first)(part) for part, first in zip(raw, starts, strict=False)])


def _join(raw: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in raw]) for name in raw[0]}


def _make_module(example: Placed, shape: Shape) -> torch.nn.Module:
    """What the export stage writes: the analytic model in plain PyTorch, list included."""
    from phasewise_studies.painn.product.deploy import Potential

    weights, sizes = choose_weights(shape.features)
    return Potential(weights, sizes, as_atoms(example))
