"""From positions to energies and forces: the parts that the switches choose, put together once.

    list (neighbours) -> energies and pulls (model, adjoint) -> forces (assembly)

An `Engine` is planned for systems like the first ones it is given: same number of atoms, places for a quarter more edges. With
more edges than places, energies and forces are NaN: never a wrong number; those of a system with a position that is not finite too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn import adjoint, neighbours, reference
from phasewise_studies.painn.arithmetic import choose_multiply
from phasewise_studies.painn.assembly import Result, choose_assembly, compile_if
from phasewise_studies.painn.layout import Atoms, Edges, Sizes, Weights
from phasewise_studies.painn.messages import PlainMessages
from phasewise_studies.painn.switches import Switches

# of the filter table: 512 leave 1e-7 of the filter and 8e-6 of its slope; more lose to float32, whose slope is a difference of
# neighbouring knots over their distance
KNOTS = 512

Finder = Callable[[Atoms], Edges]
# numbers, edges -> energy of each atom, pulls of each edge (or None)
Model = Callable[[Tensor, Edges], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class Engine:
    """One way to evaluate systems of a kind."""

    evaluate: Callable[[Atoms], Result]
    find: Finder
    model: Model
    # what ran in plain PyTorch though a kernel was asked for, with the reason
    fallbacks: tuple[str, ...]
    # places for edges; 0 where the list is as long as it is
    capacity: int


def make_engine(
    switches: Switches, weights: Weights, sizes: Sizes, atoms: Atoms, *, forces: bool = True, strain: bool = False,
    room: float = neighbours.ROOM,
) -> Engine:  # fmt: skip
    """Build for systems like `atoms`, on their device; `room` is how many more edges there may be than now."""
    device = atoms.positions.device
    switches, fallbacks = fit_switches(switches, sizes)
    multiply, missing = choose_multiply(switches.precision, device)
    fallbacks += missing
    ready = ready_weights(switches, weights, sizes, device)
    plan = neighbours.plan_list(atoms, sizes.cutoff, room=room)
    find, missing = choose_finder(switches, atoms, plan)
    fallbacks += missing
    model, missing = choose_model(switches, ready, sizes, multiply, find, atoms, forces)
    fallbacks += missing
    assemble, missing = choose_assembly(switches, device)
    fallbacks += missing + list_unused(switches, device)

    def evaluate(now: Atoms) -> Result:
        edges = find(now)
        energy, pulls = model(now.numbers, edges)
        return assemble(now, edges, energy, pulls, ready["atomref"], strain)

    return Engine(evaluate, find, model, fallbacks, plan.capacity if switches.places else 0)


def fit_switches(switches: Switches, sizes: Sizes) -> tuple[Switches, tuple[str, ...]]:
    """The switches without kernels that do not take a model of these sizes, and why."""
    if "triton" not in (switches.message, switches.atoms):
        return switches, ()
    from phasewise_studies.painn.kernels.fused_messages import find_obstacle

    obstacle = find_obstacle(sizes)
    if not obstacle:
        return switches, ()
    reasons: tuple[str, ...] = (f"triton-message: {obstacle}, plain PyTorch ran instead",)
    if switches.precision == "tf32x3":
        switches = replace(switches, precision="float32")
        reasons += (f"tf32x3: {obstacle}, float32 products ran instead",)
    return replace(switches, message="torch", atoms="torch"), reasons


def ready_weights(switches: Switches, weights: Weights, sizes: Sizes, device: torch.device) -> dict[str, Tensor]:
    """float32 weights on the device, with the tables and parts that the switches ask for; reference energies stay in float64."""
    # tables are made in float64 and rounded once
    full = dict(adjoint.prune_weights(weights, sizes)) if switches.pruned else dict(weights)
    ready = {
        name: tensor.to(device=device, dtype=torch.float64 if name == "atomref" else torch.float32).contiguous()
        for name, tensor in full.items()
    }
    if switches.atoms != "triton" or choose_products(switches) != "split":
        return ready
    from phasewise_studies.painn.kernels.fused_atoms import split_weights

    return ready | split_weights(ready)


def choose_products(switches: Switches) -> Literal["split", "ieee"]:
    """How the kernels of atoms multiply."""
    return "split" if switches.precision == "tf32x3" else "ieee"


def choose_finder(switches: Switches, atoms: Atoms, plan: neighbours.ListPlan) -> tuple[Finder, tuple[str, ...]]:
    """The neighbour list, and why it is not the one that was asked for."""
    if switches.neighbours == "triton":
        return _triton_finder(atoms, plan)
    if switches.places:
        return lambda now: neighbours.in_places(now, plan), ()
    return lambda now: neighbours.exact(now, plan), ()


def _triton_finder(atoms: Atoms, plan: neighbours.ListPlan) -> tuple[Finder, tuple[str, ...]]:
    from phasewise_studies.painn.kernels.boxes import plan_box
    from phasewise_studies.painn.kernels.cells import find_in_box
    from phasewise_studies.painn.kernels.lists import find_plain
    from phasewise_studies.painn.kernels.molecules import find_in_molecules

    reason = (
        () if has_kernel(atoms.positions.device) else ("triton-neighbours: no NVIDIA GPU, brute force ran instead",)
    )
    if atoms.cell is None:
        return lambda now: find_in_molecules(now, plan.cutoff, plan.capacity), reason
    if atoms.cell.shape[0] > 1:
        reason = ("triton-neighbours: the cell list takes one box at a time, brute force ran instead",)
        return lambda now: find_plain(now, plan.cutoff, plan.capacity), reason
    box = plan_box(atoms.cell[0], plan.cutoff, atoms.positions.shape[0])

    def find(now: Atoms) -> Edges:
        assert now.cell is not None, "planned for a box"
        return find_in_box(now, replace(box, cell=now.cell[0].contiguous()), plan.capacity)[0]

    return find, reason


def choose_model(
    switches: Switches,
    weights: Weights,
    sizes: Sizes,
    multiply: adjoint.Multiply,
    find: Finder,
    atoms: Atoms,
    forces: bool,
) -> tuple[Model, tuple[str, ...]]:
    """Energies of atoms and pulls of edges."""
    if switches.forces == "autograd":
        take = take_rows if switches.gather == "select" else reference.by_index
        return lambda numbers, edges: by_autograd(numbers, edges, weights, sizes, take, forces), ()
    if switches.message == "triton":
        return _fused_model(switches, weights, sizes, multiply, find, atoms, forces)

    def plain(numbers: Tensor, r: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor | None]:
        messages = PlainMessages(r, i, j, weights, sizes, multiply)
        return adjoint.energies_and_pulls(
            numbers, messages, weights, sizes, pruned=switches.pruned, multiply=multiply, forces=forces
        )

    call = torch.compile(plain, fullgraph=True, dynamic=False) if switches.compiled else plain
    return lambda numbers, edges: call(numbers, edges.r, edges.i, edges.j), ()


def _fused_model(
    switches: Switches,
    weights: Weights,
    sizes: Sizes,
    multiply: adjoint.Multiply,
    find: Finder,
    atoms: Atoms,
    forces: bool,
) -> tuple[Model, tuple[str, ...]]:
    from phasewise_studies.painn.kernels.fused_messages import FusedMessages, default_launches
    from phasewise_studies.painn.kernels.message import pack_filter
    from phasewise_studies.painn.kernels.split import split_filters

    packed = pack_filter(weights["filter.weight"], weights["filter.bias"], sizes.layers)
    knots = KNOTS if switches.table else 0
    if switches.table:
        from phasewise_studies.painn.kernels.table import build_table

        packed = build_table(packed, sizes, KNOTS)
    # what stands in for kernels is not worth compiling
    parts = choose_parts(switches, compiled=switches.compiled and atoms.positions.is_cuda)
    launches = default_launches(atoms.positions.shape[0], sizes, atoms.positions.device, knots)
    reason = () if has_kernel(atoms.positions.device) else ("triton-message: no NVIDIA GPU, plain PyTorch ran instead",)
    if switches.tuned and not reason:
        from phasewise_studies.painn.kernels.fused_atoms import fused_parts
        from phasewise_studies.painn.kernels.tuning import tune_launches, tune_tiles

        launches = tune_launches(packed, sizes, find(atoms), launches, knots)
        if switches.atoms == "triton":
            products = choose_products(switches)
            parts = fused_parts(products, tune_tiles(weights, sizes, atoms.positions.shape[0], products))

    # where no kernel runs nothing reads them
    halves = split_filters(packed) if launches.tiled and not reason else None

    def fused(numbers: Tensor, edges: Edges) -> tuple[Tensor, Tensor | None]:
        messages = FusedMessages(edges, packed, sizes, launches, slopes=forces, knots=knots, halves=halves)
        return adjoint.energies_and_pulls(
            numbers, messages, weights, sizes, pruned=switches.pruned, multiply=multiply, forces=forces, atom=parts
        )

    return fused, reason


def choose_parts(switches: Switches, *, compiled: bool) -> adjoint.AtomParts:
    """The dense parts: ours, each compiled by itself, or plain."""
    if switches.atoms == "triton":
        from phasewise_studies.painn.kernels.fused_atoms import fused_parts

        return fused_parts(choose_products(switches))
    if not compiled:
        return adjoint.AtomParts()
    names = [field.name for field in fields(adjoint.AtomParts)]
    return adjoint.AtomParts(**{name: compile_if(getattr(adjoint, name), True) for name in names})


def by_autograd(
    numbers: Tensor, edges: Edges, weights: Weights, sizes: Sizes, take: reference.Take, forces: bool
) -> tuple[Tensor, Tensor | None]:
    """Energies, and pulls by torch.autograd back to the edge vectors."""
    i, j = edges.i.long(), edges.j.long()
    with torch.set_grad_enabled(forces):
        r = edges.r.detach().requires_grad_(forces)
        energy = reference.atom_energies(numbers, r, i, j, weights, sizes, take)
    if not forces:
        return energy, None
    (gradient,) = torch.autograd.grad(energy.sum(), r)
    # the adjoint gives dE/dr of the edge read backwards; forces of a symmetric list take either
    return energy.detach(), -gradient


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows by index_select, whose backward adds without sorting."""
    return values.index_select(0, index)


def list_unused(switches: Switches, device: torch.device) -> tuple[str, ...]:
    """What was asked of the message kernels where they do not run, and so changes nothing."""
    fused = switches.message == "triton"
    unused = {
        "filter-table: plain messages evaluate their filters": switches.table and not fused,
        "autotune: without the kernels there is no launch to choose": switches.tuned
        and not (fused and has_kernel(device)),
    }
    return tuple(reason for reason, is_true in unused.items() if is_true)
