"""Neighbour list of a batch of molecules: all pairs inside each molecule, no periodicity.

(i, j) is an edge if |R_j - R_i| < cutoff, in float64. A program takes ROWS atoms and walks the atoms of their molecules, a
tile of distances at a time: N^2 tests a molecule, which for up to a few hundred atoms is less than sorting them would be.
Rows come out in ascending order of j.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.lists import (
    COLUMNS,
    ROWS,
    begin_rows,
    find_plain,
    finish_edges,
    load_vector,
    new_edges,
    store_edges,
)
from phasewise_studies.painn.layout import Atoms, Edges


def find_in_molecules(atoms: Atoms, cutoff: float, capacity: int) -> Edges:
    """The list with room for `capacity` edges; three kernels, nothing waits for the device."""
    assert atoms.cell is None, "a periodic system needs cells.find_in_box"
    if not has_kernel(atoms.positions.device):
        return find_plain(atoms, cutoff, capacity)
    count = atoms.positions.shape[0]
    device = atoms.positions.device
    edges = new_edges(count, capacity, device)
    programs = max(1, triton.cdiv(count, ROWS))
    counts = torch.empty(count, dtype=torch.int32, device=device)
    totals = torch.empty(programs, dtype=torch.int32, device=device)
    shared = (atoms.positions.contiguous(), atoms.system, atoms.start, counts, totals, count)
    for fill in (False, True):
        molecule_kernel[(programs,)](
            edges.row_ptr, edges.i, edges.j, edges.r, edges.overflow, *shared, capacity,
            SQUARE=cutoff**2, FILL=fill, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4,
        )  # fmt: skip
    finish_edges(edges, cutoff, ascending=True)
    return edges


@triton.jit(do_not_specialize=["atoms", "capacity"])
def molecule_kernel(
    row_ptr, i, j, r, overflow, positions, system, start, counts, totals, atoms, capacity,
    SQUARE: tl.constexpr, FILL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS atoms: their numbers of neighbours, or (FILL) their rows."""
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    valid = rows < atoms
    at = rows.to(tl.int64)
    x, y, z = load_vector(positions, at, valid)
    mine = tl.load(system + rows, mask=valid, other=-1)
    # the molecules of the first and the last row, and all between
    low = tl.load(start + tl.load(system + block * ROWS))
    high = tl.load(start + tl.load(system + tl.minimum(block * ROWS + ROWS, atoms) - 1) + 1)
    # a float argument would be float32
    radius = tl.full((1, 1), SQUARE, tl.float64)
    seen = tl.zeros((ROWS,), tl.int32)
    if FILL:
        last = tl.num_programs(0) - 1
        seen = begin_rows(row_ptr, overflow, counts, totals, rows, valid, block, last, atoms, capacity, 0)
    for begin in range(low, high, COLUMNS):
        candidates = begin + tl.arange(0, COLUMNS)
        exists = candidates < high
        there_x, there_y, there_z = load_vector(positions, candidates.to(tl.int64), exists)
        theirs = tl.load(system + candidates, mask=exists, other=-2)
        dx = there_x[None, :] - x[:, None]
        dy = there_y[None, :] - y[:, None]
        dz = there_z[None, :] - z[:, None]
        near = (dx * dx + dy * dy + dz * dz < radius) & (mine[:, None] == theirs[None, :])
        near = near & (rows[:, None] != candidates[None, :])
        one = near.to(tl.int32)
        if FILL:
            place = seen[:, None] + tl.cumsum(one, 1) - one
            store_edges(i, j, r, place, near, rows[:, None], candidates[None, :], dx, dy, dz, capacity)
        seen += tl.sum(one, 1)
    if not FILL:
        tl.store(counts + rows, seen, mask=valid)
        tl.store(totals + block, tl.sum(seen))
