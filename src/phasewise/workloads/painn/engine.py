"""From positions to energies and forces: the parts that the switches choose, put together once.

    list (neighbours) -> energies and pulls (model, adjoint) -> forces (assembly)

An `Engine` is planned for systems like the first ones it is given: same number of atoms, places for a quarter more edges. With
more edges than places, energies and forces are NaN: never a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from phasewise.workloads.painn import adjoint, neighbours, reference
from phasewise.workloads.painn.arithmetic import choose_multiply
from phasewise.workloads.painn.layout import Atoms, Edges, Sizes, Weights
from phasewise.workloads.painn.messages import PlainMessages
from phasewise.workloads.painn.phases import Switches
from phasewise.workloads.painn.triton.device import has_kernels

# of the filter table: 512 leave 1e-7 of the filter and 8e-6 of its slope; more lose to float32, whose slope is a difference of
# neighbouring knots over their distance
KNOTS = 512

Finder = Callable[[Atoms], Edges]
# numbers, edges -> energy of each atom, pulls of each edge (or None)
Model = Callable[[Tensor, Edges], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class Result:
    """Energies (B,) in eV and forces (A, 3) in eV/A, float64; strain gradients (B, 3, 3) in eV where asked for."""

    energy: Tensor
    forces: Tensor | None
    strain: Tensor | None = None


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
    multiply, fallbacks = choose_multiply(switches.precision, device)
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


def ready_weights(switches: Switches, weights: Weights, sizes: Sizes, device: torch.device) -> dict[str, Tensor]:
    """float32 weights on the device, with the tables and parts that the switches ask for; reference energies stay in float64."""
    # tables are made in float64 and rounded once
    full = dict(adjoint.prune_weights(weights, sizes)) if switches.pruned else dict(weights)
    ready = {
        name: tensor.to(device=device, dtype=torch.float64 if name == "atomref" else torch.float32).contiguous()
        for name, tensor in full.items()
    }
    if switches.atoms != "triton" or switches.precision != "tf32x3":
        return ready
    from phasewise.workloads.painn.fused_atoms import split_weights

    return ready | split_weights(ready)


def choose_finder(switches: Switches, atoms: Atoms, plan: neighbours.ListPlan) -> tuple[Finder, tuple[str, ...]]:
    """The neighbour list, and why it is not the one that was asked for."""
    if switches.neighbours == "triton":
        return _triton_finder(atoms, plan)
    if switches.places:
        return lambda now: neighbours.in_places(now, plan), ()
    return lambda now: neighbours.exact(now, plan), ()


def _triton_finder(atoms: Atoms, plan: neighbours.ListPlan) -> tuple[Finder, tuple[str, ...]]:
    from phasewise.workloads.painn.triton.boxes import plan_box
    from phasewise.workloads.painn.triton.cells import find_in_box
    from phasewise.workloads.painn.triton.lists import find_plain
    from phasewise.workloads.painn.triton.molecules import find_in_molecules

    reason = (
        () if has_kernels(atoms.positions.device) else ("triton-neighbours: no NVIDIA GPU, brute force ran instead",)
    )
    if atoms.cell is None:
        return lambda now: find_in_molecules(now, plan.cutoff, plan.capacity), reason
    if atoms.cell.shape[0] > 1:
        reason = ("triton-neighbours: the cell list takes one box at a time, brute force ran instead",)
        return lambda now: find_plain(now, plan.cutoff, plan.capacity), reason
    box = plan_box(atoms.cell[0], plan.cutoff, atoms.positions.shape[0])

    def find(now: Atoms) -> Edges:
        assert now.cell is not None, "planned for a box"
        here = replace(box, cell=now.cell[0].contiguous(), inverse=neighbours.invert(now.cell)[0].contiguous())
        return find_in_box(now, here, plan.capacity)[0]

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
    from phasewise.workloads.painn.fused import FusedMessages, default_launches
    from phasewise.workloads.painn.triton.message import pack_filter

    packed = pack_filter(weights["filter.weight"], weights["filter.bias"], sizes.layers)
    knots = KNOTS if switches.table else 0
    if switches.table:
        from phasewise.workloads.painn.triton.table import build_table

        packed = build_table(packed, sizes, KNOTS)
    # what stands in for kernels is not worth compiling
    parts = choose_parts(switches, compiled=switches.compiled and atoms.positions.is_cuda)
    launches = default_launches(atoms.positions.shape[0], sizes.features)
    reason = (
        () if has_kernels(atoms.positions.device) else ("triton-message: no NVIDIA GPU, plain PyTorch ran instead",)
    )
    if switches.tuned and not reason:
        from phasewise.workloads.painn.tuning import tune_launches

        launches = tune_launches(packed, sizes, find(atoms), launches, knots)

    def fused(numbers: Tensor, edges: Edges) -> tuple[Tensor, Tensor | None]:
        messages = FusedMessages(edges, packed, sizes, launches, slopes=forces, knots=knots)
        return adjoint.energies_and_pulls(
            numbers, messages, weights, sizes, pruned=switches.pruned, multiply=multiply, forces=forces, atom=parts
        )

    return fused, reason


def choose_parts(switches: Switches, *, compiled: bool) -> adjoint.AtomParts:
    """The dense parts: ours, each compiled by itself, or plain."""
    if switches.atoms == "triton":
        from phasewise.workloads.painn.fused_atoms import fused_parts

        return fused_parts("split" if switches.precision == "tf32x3" else "ieee")
    if not compiled:
        return adjoint.AtomParts()
    names = [field.name for field in fields(adjoint.AtomParts)]
    return adjoint.AtomParts(**{name: _maybe(getattr(adjoint, name), True) for name in names})


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


def choose_assembly(switches: Switches, device: torch.device) -> tuple[Callable[..., Result], tuple[str, ...]]:
    """From energies of atoms and pulls of edges to energies of systems and forces on atoms; why not as it was asked for."""
    if switches.assembly != "triton":
        return by_scatter, ()
    reason = () if has_kernels(device) else ("triton-forces: no NVIDIA GPU, plain PyTorch ran instead",)
    if switches.neighbours != "triton":
        # a sum along rows reads the opposite of each edge, which only the kernels' list names
        return by_scatter, reason or ("triton-forces: the list names no opposite edges, forces were scattered",)
    from phasewise.workloads.painn.triton.forces import gather_forces, sum_systems

    compiled = switches.compiled and device.type == "cuda"
    total_of, refuse = (_maybe(part, compiled) for part in (add_atomref, refuse_overflow))

    def by_rows(
        atoms: Atoms, edges: Edges, energy: Tensor, pulls: Tensor | None, atomref: Tensor, strain: bool
    ) -> Result:
        total = sum_systems(total_of(energy, atomref, atoms.numbers), atoms.start)
        if pulls is None:
            return Result(*refuse(edges.overflow, total, None, None))
        forces, gradient = gather_forces(pulls if pulls.dim() == 3 else pulls[None], edges, strain=strain)
        summed = None if gradient is None else sum_systems(gradient, atoms.start)
        return Result(*refuse(edges.overflow, total, forces, summed))

    return by_rows, reason


def list_unused(switches: Switches, device: torch.device) -> tuple[str, ...]:
    """What was asked of the message kernels where they do not run, and so changes nothing."""
    fused = switches.message == "triton"
    unused = {
        "filter-table: plain messages evaluate their filters": switches.table and not fused,
        "autotune: without the kernels there is no launch to choose": switches.tuned
        and not (fused and has_kernels(device)),
    }
    return tuple(reason for reason, is_true in unused.items() if is_true)


def _maybe(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return torch.compile(function, fullgraph=True, dynamic=False) if compiled else function


def add_atomref(energy: Tensor, atomref: Tensor, numbers: Tensor) -> Tensor:
    """Energies of atoms with their reference, float64."""
    return energy.double() + atomref.index_select(0, numbers)


def by_scatter(
    atoms: Atoms, edges: Edges, energy: Tensor, pulls: Tensor | None, atomref: Tensor, strain: bool
) -> Result:
    """F_i -= p and F_j += p over all edges (i <- j), in float64."""
    systems = atoms.start.shape[0] - 1
    total = reference.sum_systems(add_atomref(energy, atomref, atoms.numbers), atoms.system, systems)
    if pulls is None:
        return Result(*refuse_overflow(edges.overflow, total, None, None))
    # kernels leave empty places as they were
    real = torch.arange(edges.j.shape[0], device=edges.j.device) < edges.row_ptr[-1:]
    p = torch.where(real[:, None], pulls.sum(0) if pulls.dim() == 3 else pulls, 0).double()
    forces = torch.zeros_like(atoms.positions).index_add(0, edges.i, -p).index_add(0, edges.j, p)
    if not strain:
        return Result(*refuse_overflow(edges.overflow, total, forces, None))
    outer = -edges.r[:, :, None].double() * p[:, None, :]
    at = atoms.system.index_select(0, edges.i)
    summed = torch.zeros(systems, 3, 3, dtype=torch.float64, device=p.device).index_add(0, at, outer)
    return Result(*refuse_overflow(edges.overflow, total, forces, summed))


def refuse_overflow(overflow: Tensor, *parts: Tensor | None) -> tuple[Tensor | None, ...]:
    """The parts, or NaN where the list had more edges than places."""
    missing = overflow > 0
    return tuple(None if part is None else part.masked_fill(missing, torch.nan) for part in parts)
