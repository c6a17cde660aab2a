"""From energies of atoms and pulls of edges to energies of systems and forces on atoms.

    F_i = sum_e p_rev(e) - p_e         E_b = sum of its atoms, with their reference energies; float64

With more edges than places all of it is NaN, and with a position that is not finite all of its system: never a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn import reference
from phasewise_studies.painn.layout import Atoms, Edges
from phasewise_studies.painn.switches import Switches


@dataclass(frozen=True)
class Result:
    """Energies (B,) in eV and forces (A, 3) in eV/A, float64; strain gradients (B, 3, 3) in eV where asked for."""

    energy: Tensor
    forces: Tensor | None
    strain: Tensor | None = None


def choose_assembly(switches: Switches, device: torch.device) -> tuple[Callable[..., Result], tuple[str, ...]]:
    """From energies of atoms and pulls of edges to energies of systems and forces on atoms; why not as it was asked for."""
    if switches.assembly != "triton":
        return by_scatter, ()
    reason = () if has_kernel(device) else ("triton-forces: no NVIDIA GPU, plain PyTorch ran instead",)
    if switches.neighbours != "triton":
        # a sum along rows reads the opposite of each edge, which only the kernels' list names
        return by_scatter, reason or ("triton-forces: the list names no opposite edges, forces were scattered",)
    from phasewise_studies.painn.kernels.forces import gather_forces, sum_energies, sum_systems

    def by_rows(
        atoms: Atoms, edges: Edges, energy: Tensor, pulls: Tensor | None, atomref: Tensor, strain: bool
    ) -> Result:
        total = sum_energies(energy, atomref, atoms, edges.overflow)
        if pulls is None:
            return Result(total, None)
        parts = pulls if pulls.dim() == 3 else pulls[None]
        forces, gradient = gather_forces(parts, edges, total, atoms.system, strain=strain)
        return Result(total, forces, None if gradient is None else sum_systems(gradient, atoms.start))

    return by_rows, reason


def compile_if(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    """The function as it is, or compiled for the shapes that it meets."""
    return torch.compile(function, fullgraph=True, dynamic=False) if compiled else function


def add_atomref(energy: Tensor, atomref: Tensor, numbers: Tensor) -> Tensor:
    """Energies of atoms with their reference, float64."""
    return energy.double() + atomref.index_select(0, numbers)


def by_scatter(
    atoms: Atoms, edges: Edges, energy: Tensor, pulls: Tensor | None, atomref: Tensor, strain: bool
) -> Result:
    """F_i -= p and F_j += p over all edges (i <- j), in float64."""
    systems = atoms.start.shape[0] - 1
    each = refuse_positions(atoms.positions, add_atomref(energy, atomref, atoms.numbers))
    total = reference.sum_systems(each, atoms.system, systems).masked_fill(edges.overflow > 0, torch.nan)
    if pulls is None:
        return Result(total, None)
    # what has no energy has no forces
    missing = ~total.isfinite()
    lost = missing.index_select(0, atoms.system)[:, None]
    # kernels leave empty places as they were
    real = torch.arange(edges.j.shape[0], device=edges.j.device) < edges.row_ptr[-1:]
    p = torch.where(real[:, None], pulls.sum(0) if pulls.dim() == 3 else pulls, 0).double()
    forces = torch.zeros_like(atoms.positions).index_add(0, edges.i, -p).index_add(0, edges.j, p)
    forces = forces.masked_fill(lost, torch.nan)
    if not strain:
        return Result(total, forces)
    outer = -edges.r[:, :, None].double() * p[:, None, :]
    at = atoms.system.index_select(0, edges.i)
    summed = torch.zeros(systems, 3, 3, dtype=torch.float64, device=p.device).index_add(0, at, outer)
    return Result(total, forces, summed.masked_fill(missing[:, None, None], torch.nan))


def refuse_positions(positions: Tensor, energy: Tensor) -> Tensor:
    """Energies of atoms (A,), or NaN where a position is not finite: near nobody, such an atom would lose its edges and be a free one."""
    return energy.masked_fill(~positions.isfinite().all(1), torch.nan)
