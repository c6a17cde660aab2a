"""Neighbour list of one periodic box by cells, in six kernels of fixed size.

bin    each atom is wrapped into the box and takes a slot of its cell, by an atomic count of integers: in any order
pack   each cell sorts its atoms by number, so that what follows no longer knows that order, and stores their positions together
count  each cell against the cells around it, tile by tile: numbers of neighbours
scan   where each row begins
fill   the same walk again writes the rows
finish opposites and empty places (`lists.py`)

r = (w_j - w_i) + s H with wrapped positions w and whole lattice vectors s, in float64 and in this order, so that the two
directions of a pair differ in sign alone. The shift of the unwrapped positions, s - home_j + home_i, is kept packed as
s_x + 1024 s_y + 1024^2 s_z, which is linear: opposite edges have opposite codes. It holds shifts out to 500: an atom
more than 250 boxes away from the first is counted in `overflow`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.workloads.painn import reference
from phasewise.workloads.painn.layout import Atoms, Edges
from phasewise.workloads.painn.triton.boxes import Box
from phasewise.workloads.painn.triton.device import blocks, has_kernels
from phasewise.workloads.painn.triton.lists import (
    COLUMNS,
    ROWS,
    finish_edges,
    load_vector,
    new_edges,
    place_edges,
    store_edges,
    sum_before,
)
from phasewise.workloads.painn.triton.molecules import cutoff_square

BLOCK = 128
SCAN_BLOCK = 1024


def find_in_box(atoms: Atoms, box: Box, capacity: int) -> tuple[Edges, Tensor]:
    """The list with room for `capacity` edges, and the packed shift of each edge (E,) int32; nothing waits for the device.

    `overflow` counts edges without a place, and atoms that found no slot in their cell or are too far away.
    """
    assert atoms.start.shape[0] == 2, "one box at a time; batches of boxes go through find_plain"
    positions = atoms.positions.contiguous()
    if not has_kernels(positions.device):
        return find_in_box_plain(atoms, box, capacity)
    count, device = positions.shape[0], positions.device
    cells = box.cells[0] * box.cells[1] * box.cells[2]
    edges = new_edges(count, capacity, device)
    shift = torch.empty(capacity, dtype=torch.int32, device=device)
    # one count a cell, and one of the atoms that found no slot
    held = torch.zeros(cells + 1, dtype=torch.int32, device=device)
    member, home = (torch.empty(cells * box.slots, dtype=torch.int32, device=device) for _ in range(2))
    where = torch.empty((cells * box.slots, 3), dtype=torch.float64, device=device)
    counts, homes = (torch.zeros(count, dtype=torch.int32, device=device) for _ in range(2))
    square = cutoff_square(box.cutoff, device)
    bin_kernel[(blocks(count, BLOCK),)](
        member, homes, held, positions, box.cell, box.inverse, count, cells, *box.cells, SLOTS=box.slots, BLOCK=BLOCK,
        num_warps=4,
    )  # fmt: skip
    pack_kernel[(cells,)](member, home, where, held, homes, positions, box.cell, SLOTS=box.slots, num_warps=4)
    begins = torch.empty(count, dtype=torch.int32, device=device)
    shared = (member, home, where, held, box.cell, square, capacity, *box.cells, *box.reach)
    rows = min(ROWS, box.slots)
    for fill in (False, True):
        if fill:
            scan_kernel[(blocks(count, SCAN_BLOCK),)](
                edges.row_ptr, begins, edges.overflow, counts, held, count, cells, capacity, BLOCK=SCAN_BLOCK,
                num_warps=4,
            )  # fmt: skip
        pair_kernel[(cells, box.slots // rows)](
            edges.i, edges.j, edges.r, shift, counts, begins, *shared, FILL=fill, SLOTS=box.slots, ROWS=rows,
            COLUMNS=COLUMNS, num_warps=4,
        )  # fmt: skip
    finish_edges(edges, box.cutoff)
    return edges, shift


def find_in_box_plain(atoms: Atoms, box: Box, capacity: int) -> tuple[Edges, Tensor]:
    """The same in plain PyTorch, by brute force; rows are ordered by neighbour and shift."""
    i, j, s = reference.find_neighbours(atoms, box.cutoff)
    edges = place_edges(atoms, i, j, s, box.cutoff, capacity)
    code = (s * torch.tensor([1, 1024, 1024**2], device=s.device)).sum(1).int()
    shift = torch.zeros(capacity, dtype=torch.int32, device=s.device)
    shift[: min(capacity, code.shape[0])] = code[:capacity]
    return edges, shift


@triton.jit(do_not_specialize=["atoms", "cells", "n_x", "n_y", "n_z"])
def bin_kernel(
    member, homes, held, positions, cell, inverse, atoms, cells, n_x, n_y, n_z,
    SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK atoms."""
    a = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = a < atoms
    x, y, z = load_vector(positions, a.to(tl.int64), valid)
    number = tl.zeros((BLOCK,), tl.int32)
    code, far = number, number
    for k in tl.static_range(3):
        s = x * tl.load(inverse + k) + y * tl.load(inverse + 3 + k) + z * tl.load(inverse + 6 + k)
        whole = tl.floor(s)
        n = n_x if k == 0 else (n_y if k == 1 else n_z)
        # a fraction just below 1 may round up to 1
        number = number * n + tl.minimum(((s - whole) * n).to(tl.int32), n - 1)
        far += (tl.abs(whole) > 250).to(tl.int32)
        code += whole.to(tl.int32) * (1 if k == 0 else (1024 if k == 1 else 1048576))
    tl.store(homes + a, code, mask=valid)
    slot = tl.atomic_add(held + number, tl.full((BLOCK,), 1, tl.int32), mask=valid)
    tl.store(member + number * SLOTS + slot, a, mask=valid & (slot < SLOTS))
    lost = tl.sum((valid & ((slot >= SLOTS) | (far > 0))).to(tl.int32))
    if lost > 0:
        tl.atomic_add(held + cells, lost)


@triton.jit
def pack_kernel(member, home, where, held, homes, positions, cell, SLOTS: tl.constexpr):
    """One cell: its atoms in ascending order, wrapped."""
    number = tl.program_id(0)
    count = tl.minimum(tl.load(held + number), SLOTS)
    slot = tl.arange(0, SLOTS)
    base = number * SLOTS
    a = tl.load(member + base + slot, mask=slot < count, other=2147483647)
    others = tl.load(member + base + slot[None, :], mask=slot[None, :] < count, other=2147483647)
    rank = tl.sum((others < a[:, None]).to(tl.int32), 1)
    valid = slot < count
    code = tl.load(homes + a, mask=valid, other=0)
    s_x, s_y, s_z = unpack(code)
    x, y, z = load_vector(positions, a.to(tl.int64), valid)
    o_x, o_y, o_z = lattice_vector(s_x, s_y, s_z, cell)
    # all threads have read the old order before any writes the new one
    tl.debug_barrier()
    at = base + rank
    tl.store(member + at, a, mask=valid)
    tl.store(home + at, code, mask=valid)
    at = where + at.to(tl.int64) * 3
    tl.store(at, x - o_x, mask=valid)
    tl.store(at + 1, y - o_y, mask=valid)
    tl.store(at + 2, z - o_z, mask=valid)


@triton.jit
def unpack(code):
    """The three signed numbers of ten bits in a packed shift."""
    low = code + 512
    s_x = (low & 1023) - 512
    low = ((low - (s_x + 512)) >> 10) + 512
    s_y = (low & 1023) - 512
    return s_x, s_y, (low - (s_y + 512)) >> 10


@triton.jit
def lattice_vector(s_x, s_y, s_z, cell):
    """s H in float64."""
    a, b, c = s_x.to(tl.float64), s_y.to(tl.float64), s_z.to(tl.float64)
    x = a * tl.load(cell) + b * tl.load(cell + 3) + c * tl.load(cell + 6)
    y = a * tl.load(cell + 1) + b * tl.load(cell + 4) + c * tl.load(cell + 7)
    z = a * tl.load(cell + 2) + b * tl.load(cell + 5) + c * tl.load(cell + 8)
    return x, y, z


@triton.jit(do_not_specialize=["atoms", "cells", "capacity"])
def scan_kernel(
    row_ptr, begins, overflow, counts, held, atoms, cells, capacity, BLOCK: tl.constexpr
):  # fmt: skip
    """Where BLOCK rows begin; each program adds up all counts before its own, which are few and in cache."""
    block = tl.program_id(0)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    valid = rows < atoms
    count = tl.load(counts + rows, mask=valid, other=0)
    begin = sum_before(counts, block * BLOCK, 4096) + tl.cumsum(count, 0) - count
    tl.store(begins + rows, begin, mask=valid)
    tl.store(row_ptr + rows, tl.minimum(begin, capacity), mask=valid)
    if block == tl.num_programs(0) - 1:
        total = tl.max(begin + count)
        tl.store(row_ptr + atoms, tl.minimum(total, capacity))
        tl.store(overflow, tl.maximum(total - capacity, 0) + tl.load(held + cells))


@triton.jit
def wrap(index, n):
    """Which image of the box a cell index stands in, rounding down, and the index inside."""
    image = tl.where(index >= 0, index // n, -((n - 1 - index) // n))
    return image, index - image * n


@triton.jit(do_not_specialize=["capacity", "n_x", "n_y", "n_z", "reach_x", "reach_y", "reach_z"])
def pair_kernel(
    i, j, r, shift, counts, begins, member, home, where, held, cell, square, capacity,
    n_x, n_y, n_z, reach_x, reach_y, reach_z,
    FILL: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS slots of a cell against all cells that the cutoff reaches: numbers of neighbours, or (FILL) rows."""
    number = tl.program_id(0)
    c_z = number % n_z
    c_y = (number // n_z) % n_y
    c_x = number // (n_z * n_y)
    first = tl.program_id(1) * ROWS
    slot = first + tl.arange(0, ROWS)
    atoms = tl.minimum(tl.load(held + number), SLOTS)
    valid = slot < atoms
    a = tl.load(member + number * SLOTS + slot, mask=valid, other=0)
    x, y, z = load_vector(where, (number * SLOTS + slot).to(tl.int64), valid)
    radius = tl.load(square)
    seen = tl.zeros((ROWS,), tl.int32)
    if FILL:
        seen = tl.load(begins + a, mask=valid, other=0)
        mine = tl.load(home + number * SLOTS + slot, mask=valid, other=0)
    width_y, width_z = 2 * reach_y + 1, 2 * reach_z + 1
    # where all slots are empty, at none
    around = tl.where(first < atoms, (2 * reach_x + 1) * width_y * width_z, 0)
    for k in range(around):
        s_x, d_x = wrap(c_x + k // (width_y * width_z) - reach_x, n_x)
        s_y, d_y = wrap(c_y + (k // width_z) % width_y - reach_y, n_y)
        s_z, d_z = wrap(c_z + k % width_z - reach_z, n_z)
        there = (d_x * n_y + d_y) * n_z + d_z
        o_x, o_y, o_z = lattice_vector(s_x, s_y, s_z, cell)
        they = tl.minimum(tl.load(held + there), SLOTS)
        # an atom is no neighbour of itself, but its images are
        is_home = tl.abs(s_x) + tl.abs(s_y) + tl.abs(s_z) == 0
        for begin in range(0, they, COLUMNS):
            column = begin + tl.arange(0, COLUMNS)
            exists = column < they
            b = tl.load(member + there * SLOTS + column, mask=exists, other=0)
            b_x, b_y, b_z = load_vector(where, (there * SLOTS + column).to(tl.int64), exists)
            dx = (b_x[None, :] - x[:, None]) + o_x
            dy = (b_y[None, :] - y[:, None]) + o_y
            dz = (b_z[None, :] - z[:, None]) + o_z
            near = (dx * dx + dy * dy + dz * dz < radius) & valid[:, None] & exists[None, :]
            near = near & (a[:, None] != tl.where(is_home, b, -1)[None, :])
            one = near.to(tl.int32)
            if FILL:
                place = seen[:, None] + tl.cumsum(one, 1) - one
                store_edges(i, j, r, place, near, a[:, None], b[None, :], dx, dy, dz, capacity)
                theirs = tl.load(home + there * SLOTS + column, mask=exists, other=0)
                code = (s_x + 1024 * s_y + 1048576 * s_z) - theirs[None, :] + mine[:, None]
                tl.store(shift + place, code, mask=near & (place < capacity))
            seen += tl.sum(one, 1)
    if not FILL:
        tl.store(counts + a, seen, mask=valid)
