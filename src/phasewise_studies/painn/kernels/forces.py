"""Forces, strain gradient and energies from what the passes left on edges and atoms: sums along rows, in float64.

    F_a = sum_e (p_rev(e) - p_e)          p_e = dE/dr' of the edge along which a sends (`adjoint.py`), summed over its parts
    G_a = sum_e (-r_e) (x) p_e            dE/dstrain of a system is the sum of G over its atoms

With more edges than places all of it is NaN, and so is a system with a position that is not finite: such an atom is near nobody, and
without its edges the others would have numbers, wrong ones. The energy tells, and forces read the energy of their system. The kernels
see to that themselves, and add the reference energies too, since a kernel after them would take longer to begin than to run.

Every p is added to one atom and taken from one other, in float64: the forces of a system add up to 0 to its last bits,
although p itself is float32. No atomics. 24 B an edge and part read, half of them at a random place.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.lists import load_vector
from phasewise_studies.painn.kernels.message import receivers
from phasewise_studies.painn.layout import Atoms, Edges

ROWS, COLUMNS = 8, 16
# values that a program of `sum_systems` adds at a time
CHUNK = 1024


def gather_forces(
    pulls: Tensor, edges: Edges, total: Tensor, system: Tensor, *, strain: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Forces (A, 3) and, if asked for, each atom's strain gradient (A, 3, 3), float64, from pulls (P, E, 3).

    They are NaN where the energy (B,) of the atom's system (A,) is not finite.
    """
    if not has_kernel(pulls.device, pulls.dtype):
        return gather_forces_plain(pulls, edges, total, system, strain=strain)
    assert pulls.is_contiguous() and pulls.shape[1] == edges.j.shape[0]
    atoms = edges.row_ptr.shape[0] - 1
    forces = torch.empty((atoms, 3), dtype=torch.float64, device=pulls.device)
    gradient = torch.empty((atoms, 3, 3), dtype=torch.float64, device=pulls.device) if strain else None
    if atoms:
        force_kernel[(triton.cdiv(atoms, ROWS),)](
            forces, gradient if strain else forces, pulls, edges.r, edges.row_ptr, edges.reverse, total, system, atoms, pulls.shape[1],
            PARTS=pulls.shape[0], STRAIN=strain, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4,
        )  # fmt: skip
    return forces, gradient


def gather_forces_plain(
    pulls: Tensor, edges: Edges, total: Tensor, system: Tensor, *, strain: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The same in plain PyTorch."""
    count, atoms = int(edges.row_ptr[-1]), edges.row_ptr.shape[0] - 1
    a = receivers(edges.row_ptr, count)
    p = pulls.double().sum(0)
    zeros = torch.zeros((atoms, 3), dtype=torch.float64, device=pulls.device)
    zeros = zeros.masked_fill(~total.isfinite().index_select(0, system)[:, None], torch.nan)
    forces = zeros.index_add(0, a, p[edges.reverse[:count].long()] - p[:count])
    if not strain:
        return forces, None
    outer = -edges.r[:count, :, None].double() * p[:count, None, :]
    return forces, zeros[:, :, None].expand(atoms, 3, 3).index_add(0, a, outer)


def sum_systems(values: Tensor, start: Tensor) -> Tensor:
    """Sums of values (A,) or (A, ...) over the atoms of each system, (B, ...), in float64 and always in the same order."""
    flat = values.reshape(values.shape[0], -1)
    systems, columns = start.shape[0] - 1, flat.shape[1]
    out = torch.empty((systems, columns), dtype=torch.float64, device=values.device)
    if has_kernel(values.device) and flat.numel():
        sum_kernel[(systems, columns)](out, flat, start, *flat.stride(), columns, CHUNK=CHUNK, num_warps=4)
    else:
        # no difference of running sums: NaN of one system would reach those behind it
        out.zero_().index_add_(0, receivers(start, flat.shape[0]), flat.double())
    return out.view(systems, *values.shape[1:])


def sum_energies(energy: Tensor, atomref: Tensor, atoms: Atoms, overflow: Tensor) -> Tensor:
    """Energies of systems (B,), float64, from those of atoms (A,) without their reference (100,)."""
    if not has_kernel(energy.device, energy.dtype):
        return sum_energies_plain(energy, atomref, atoms, overflow)
    out = torch.empty(atoms.start.shape[0] - 1, dtype=torch.float64, device=energy.device)
    energy_kernel[(out.shape[0],)](
        out, energy.contiguous(), atomref, atoms.numbers, atoms.positions.contiguous(), atoms.start, overflow,
        CHUNK=CHUNK, num_warps=4,
    )  # fmt: skip
    return out


def sum_energies_plain(energy: Tensor, atomref: Tensor, atoms: Atoms, overflow: Tensor) -> Tensor:
    """The same in plain PyTorch."""
    each = energy.double() + atomref.index_select(0, atoms.numbers)
    each = each.masked_fill(~atoms.positions.isfinite().all(1), torch.nan)
    return sum_systems(each, atoms.start).masked_fill(overflow > 0, torch.nan)


@triton.jit(do_not_specialize=["atoms", "edges"])
def force_kernel(
    forces, gradient, pulls, r, row_ptr, reverse, total, system, atoms, edges,
    PARTS: tl.constexpr, STRAIN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS atoms, COLUMNS edges of each at a time."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    valid = rows < atoms
    low = tl.load(row_ptr + rows, mask=valid, other=0)
    high = tl.load(row_ptr + rows + 1, mask=valid, other=0)
    # every sum begins with it: 0, or NaN where the energy is not finite
    own = tl.load(system + rows, mask=valid, other=0)
    zero = tl.zeros((ROWS, COLUMNS), tl.float64) + 0.0 * tl.load(total + own, mask=valid, other=0.0)[:, None]
    f_x, f_y, f_z = zero, zero, zero
    if STRAIN:
        g = (zero, zero, zero, zero, zero, zero, zero, zero, zero)
    for begin in range(0, tl.max(high - low), COLUMNS):
        e = low[:, None] + begin + tl.arange(0, COLUMNS)[None, :]
        here = e < high[:, None]
        back = tl.load(reverse + e, mask=here, other=0).to(tl.int64)
        e = e.to(tl.int64)
        p_x = tl.zeros((ROWS, COLUMNS), tl.float64)
        p_y, p_z = p_x, p_x
        for part in tl.static_range(PARTS):
            base = pulls + part * edges.to(tl.int64) * 3
            out_x, out_y, out_z = load_vector(base, e, here)
            in_x, in_y, in_z = load_vector(base, back, here)
            p_x += out_x
            p_y += out_y
            p_z += out_z
            f_x += in_x
            f_y += in_y
            f_z += in_z
        f_x -= p_x
        f_y -= p_y
        f_z -= p_z
        if STRAIN:
            r_x, r_y, r_z = load_vector(r, e, here)
            g = (g[0] - r_x * p_x, g[1] - r_x * p_y, g[2] - r_x * p_z,
                 g[3] - r_y * p_x, g[4] - r_y * p_y, g[5] - r_y * p_z,
                 g[6] - r_z * p_x, g[7] - r_z * p_y, g[8] - r_z * p_z)  # fmt: skip
    at = rows.to(tl.int64)
    tl.store(forces + at * 3, tl.sum(f_x, 1), mask=valid)
    tl.store(forces + at * 3 + 1, tl.sum(f_y, 1), mask=valid)
    tl.store(forces + at * 3 + 2, tl.sum(f_z, 1), mask=valid)
    if STRAIN:
        for k in tl.static_range(9):
            tl.store(gradient + at * 9 + k, tl.sum(g[k], 1), mask=valid)


@triton.jit
def energy_kernel(out, energy, atomref, numbers, positions, start, overflow, CHUNK: tl.constexpr):
    """One system."""
    low = tl.load(start + tl.program_id(0))
    high = tl.load(start + tl.program_id(0) + 1)
    total = tl.zeros((CHUNK,), tl.float64)
    for begin in range(low, high, CHUNK):
        at = begin + tl.arange(0, CHUNK)
        species = tl.load(numbers + at, mask=at < high, other=0)
        own = tl.load(energy + at, mask=at < high, other=0.0).to(tl.float64)
        total += own + tl.load(atomref + species, mask=at < high, other=0.0)
        x, y, z = load_vector(positions, at.to(tl.int64), at < high)
        # NaN if one of them is not finite
        total += 0.0 * x + 0.0 * y + 0.0 * z
    tl.store(out + tl.program_id(0), tl.where(tl.load(overflow) > 0, float("nan"), tl.sum(total)))


@triton.jit
def sum_kernel(out, values, start, stride_row, stride_column, columns, CHUNK: tl.constexpr):
    """One column of one system."""
    system, column = tl.program_id(0), tl.program_id(1)
    low = tl.load(start + system)
    high = tl.load(start + system + 1)
    total = tl.zeros((CHUNK,), tl.float64)
    for begin in range(low, high, CHUNK):
        at = begin + tl.arange(0, CHUNK)
        total += tl.load(values + at.to(tl.int64) * stride_row + column * stride_column, mask=at < high, other=0.0)
    tl.store(out + system * columns + column, tl.sum(total))
