"""PaiNN as programs: inputs, the build of every variant, the float64 reference and the declared work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.graphs import capture
from phasewise_studies.painn import reference as plain
from phasewise_studies.painn.assembly import compile_if
from phasewise_studies.painn.counts import count_bytes, count_edges, count_flops
from phasewise_studies.painn.data import Batch, as_atoms, make_batch, mass_table
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.motion import leapfrog_of
from phasewise_studies.painn.phases import Switches
from phasewise_studies.painn.streams import run_on_streams, split_systems
from phasewise_studies.painn.weights import choose_weights

# edges whose float64 intermediates the reference holds at a time: 2 GB
PIECE = 1 << 15
# of the NVE step: half a femtosecond, as hydrogen asks for
TIME_STEP_FS = 0.5

Placed = dict[str, Tensor]
# positions, velocities, forces, elements, masses of elements, time step -> positions and velocities
Move = Callable[..., tuple[Tensor, Tensor]]


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


def reference(inputs: Batch, case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """Brute-force neighbours, float64, forces by autograd; on a GPU where there is one, since a box is much for a CPU."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights, sizes = choose_weights(shape.features)
    weights = {name: tensor.to(device) for name, tensor in weights.items()}

    def step(batch: Batch) -> dict[str, Tensor]:
        here = {name: tensor.to(device) for name, tensor in batch.items()}
        atoms = as_atoms(here)
        i, j, shift = plain.find_neighbours(atoms, sizes.cutoff)
        if shape.task == "list":
            return describe_list(i, plain.edge_vectors(atoms, i, j, shift), len(atoms.numbers))
        piece = None if len(i) <= PIECE else PIECE
        energy, forces = plain.energy_and_forces(atoms, i, j, shift, weights, sizes, piece)
        found = _select(energy, forces, here, shape, mass_table(device))
        found = {name: value.cpu() for name, value in found.items()}
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return found

    return Program(step=step)


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


def describe_list(i: Tensor, r: Tensor, atoms: int) -> dict[str, Tensor]:
    """A list without its order: number of neighbours (A,) int64 and sum of their distances (A,) in A, float64, on the CPU.

    The same edges give the same bits, in whatever order they stand.
    """
    # added in ascending order by one thread: a GPU's atomics would add in another order at each reading
    d, order = r.double().norm(dim=1).sort()
    d, i = d.cpu(), i.long()[order].cpu()
    count = torch.bincount(i, minlength=atoms)
    distance = torch.zeros(atoms, dtype=torch.float64).index_add(0, i, d)
    return {"neighbours": count, "distance": distance}


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
        return _select(result.energy, result.forces, placed, shape, table, move)

    return step, engine.fallbacks


def _select(
    energy: Tensor, forces: Tensor | None, placed: Batch, shape: Shape, table: Tensor, move: Move = leapfrog_of
) -> dict[str, Tensor]:
    """What the case asks for."""
    if shape.task == "energy" or forces is None:
        return {"energy": energy}
    if shape.task == "step":
        positions, velocities = move(
            placed["positions"], placed["velocities"], forces, placed["numbers"].int(), table, TIME_STEP_FS
        )
        return {"energy": energy, "forces": forces, "positions": positions, "velocities": velocities}
    return {"energy": energy, "forces": forces}


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
        outputs=lambda raw: _join([_outputs(shape)(part) for part in raw]),
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


def _outputs(shape: Shape) -> Callable[[Any], dict[str, Tensor]]:
    def named(raw: dict[str, Tensor]) -> dict[str, Tensor]:
        if shape.task != "list":
            return raw
        count = int(raw["row_ptr"][-1])
        return describe_list(raw["i"][:count], raw["r"][:count], len(raw["row_ptr"]) - 1)

    return named


def _join(raw: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in raw]) for name in raw[0]}


def _make_module(example: Placed, shape: Shape) -> torch.nn.Module:
    """What the export stage writes: the analytic model in plain PyTorch, list included."""
    from phasewise_studies.painn.deploy import Potential

    weights, sizes = choose_weights(shape.features)
    return Potential(weights, sizes, as_atoms(example))
