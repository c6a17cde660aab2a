"""From a list with skin to the list of this moment: pairs beyond the cutoff dropped, r taken from the positions of now.

A list built with cutoff + skin stays complete until an atom has moved by skin / 2. In between a step needs no search: it walks
the rows of the old list (count, then fill), which is 8 B an edge and two positions, against 27 cells of candidates. Without
pruning, the edges in the skin would cost as much as any other in each of the six passes, to add exactly 0:
((r_c + skin) / r_c)^3 of the work, 1.73 for a skin of 1 A.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.lists import (
    COLUMNS,
    ROWS,
    begin_rows,
    cut_edges,
    finish_edges,
    load_vector,
    new_edges,
    store_edges,
)
from phasewise_studies.painn.kernels.message import receivers
from phasewise_studies.painn.kernels.pairs import lattice_vector, unpack
from phasewise_studies.painn.layout import Atoms, Edges


def prune(atoms: Atoms, wide: Edges, shift: Tensor | None, cutoff: float, capacity: int) -> Edges:
    """The edges of `wide` with |r| < cutoff now, with room for `capacity`; their order is kept.

    `shift` (E,) are the packed shifts of `cells.find_in_box`, None for molecules; one box only if periodic. Edges that `wide`
    itself had no room for are counted in `overflow` too.
    """
    positions = atoms.positions.contiguous()
    if not has_kernel(positions.device):
        return prune_plain(atoms, wide, shift, cutoff, capacity)
    count, device = positions.shape[0], positions.device
    edges = new_edges(count, capacity, device)
    programs = max(1, triton.cdiv(count, ROWS))
    counts = torch.empty(count, dtype=torch.int32, device=device)
    totals = torch.empty(programs, dtype=torch.int32, device=device)
    # without a cell, its place in the call is taken by the positions and never read
    cell = positions if shift is None else atoms.cell.contiguous()
    shared = (positions, wide.row_ptr, wide.j, wide.j if shift is None else shift, cell)
    for fill in (False, True):
        prune_kernel[(programs,)](
            edges.row_ptr, edges.i, edges.j, edges.r, edges.overflow, *shared, counts, totals, wide.overflow, count,
            capacity, SQUARE=cutoff**2, FILL=fill, PERIODIC=shift is not None, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4,
        )  # fmt: skip
    finish_edges(edges, cutoff)
    return edges


def prune_plain(atoms: Atoms, wide: Edges, shift: Tensor | None, cutoff: float, capacity: int) -> Edges:
    """The same in plain PyTorch; waits for the device."""
    found = int(wide.row_ptr[-1])
    i, j = receivers(wide.row_ptr, found), wide.j[:found].long()
    r = atoms.positions[j] - atoms.positions[i]
    if shift is not None:
        low = shift[:found] + 512
        s_x = (low & 1023) - 512
        low = ((low - 512 - s_x) >> 10) + 512
        s_y = (low & 1023) - 512
        s = torch.stack((s_x, s_y, (low - 512 - s_y) >> 10), dim=1)
        r = r + s.double() @ atoms.cell.view(3, 3)
    keep = torch.nonzero((r**2).sum(1) < cutoff**2)[:, 0]
    count = torch.bincount(i[keep], minlength=atoms.positions.shape[0])
    # the place of each kept edge, and for the dropped ones a place that is never looked up: opposites are dropped together
    place = torch.zeros(found, dtype=torch.int32, device=keep.device)
    place[keep] = torch.arange(keep.shape[0], dtype=torch.int32, device=keep.device)
    kept = replace(
        wide, row_ptr=torch.nn.functional.pad(count.cumsum(0), (1, 0)).int(), i=i[keep].int(), j=j[keep].int(),
        r=r[keep].float(), reverse=place[wide.reverse[:found].long()[keep]],
    )  # fmt: skip
    return cut_edges(kept, capacity, cutoff)


@triton.jit(do_not_specialize=["atoms", "capacity"])
def prune_kernel(
    row_ptr, i, j, r, overflow, positions, wide_row_ptr, wide_j, shift, cell, counts, totals, wide_overflow,
    atoms, capacity, SQUARE: tl.constexpr, FILL: tl.constexpr, PERIODIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS rows: how many of their edges are left, or (FILL) those edges."""
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    valid = rows < atoms
    x, y, z = load_vector(positions, rows.to(tl.int64), valid)
    low = tl.load(wide_row_ptr + rows, mask=valid, other=0)
    high = tl.load(wide_row_ptr + rows + 1, mask=valid, other=0)
    # a float argument would be float32
    radius = tl.full((1, 1), SQUARE, tl.float64)
    seen = tl.zeros((ROWS,), tl.int32)
    if FILL:
        last = tl.num_programs(0) - 1
        lost = tl.load(wide_overflow)
        seen = begin_rows(row_ptr, overflow, counts, totals, rows, valid, block, last, atoms, capacity, lost)
    for begin in range(0, tl.max(high - low), COLUMNS):
        e = low[:, None] + begin + tl.arange(0, COLUMNS)[None, :]
        near = e < high[:, None]
        b = tl.load(wide_j + e, mask=near, other=0)
        b_x, b_y, b_z = load_vector(positions, b.to(tl.int64), near)
        dx = b_x - x[:, None]
        dy = b_y - y[:, None]
        dz = b_z - z[:, None]
        if PERIODIC:
            s_x, s_y, s_z = unpack(tl.load(shift + e, mask=near, other=0))
            o_x, o_y, o_z = lattice_vector(s_x, s_y, s_z, cell)
            dx, dy, dz = dx + o_x, dy + o_y, dz + o_z
        near = near & (dx * dx + dy * dy + dz * dz < radius)
        one = near.to(tl.int32)
        if FILL:
            place = seen[:, None] + tl.cumsum(one, 1) - one
            store_edges(i, j, r, place, near, rows[:, None], b, dx, dy, dz, capacity)
        seen += tl.sum(one, 1)
    if not FILL:
        tl.store(counts + rows, seen, mask=valid)
        tl.store(totals + block, tl.sum(seen))
