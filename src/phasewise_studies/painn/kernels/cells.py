"""Neighbour list of one periodic box by cells, in five kernels of fixed size.

bin    each atom is wrapped into the box and takes a slot of its cell, by an atomic count of integers: in any order
pack   each cell sorts its atoms by number, so that what follows no longer knows that order, and stores their positions together
count  each cell against each of those around it: the runs of neighbours that atoms of the one have in the other (`pairs.py`)
scan   where each run begins
fill   the same pairs of cells again write the runs, with the opposite of each edge, and the empty places

r = (w_j - w_i) + s H with wrapped positions w and whole lattice vectors s, in float64 and in this order, so that the two
directions of a pair differ in sign alone. The shift of the unwrapped positions, s - home_j + home_i, is kept packed as
s_x + 1024 s_y + 1024^2 s_z, which is linear: opposite edges have opposite codes. It holds shifts out to 500: an atom
more than 250 boxes away from the first, or nowhere (NaN), takes no slot and is counted in `overflow`.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn import reference
from phasewise_studies.painn.kernels.boxes import Box
from phasewise_studies.painn.kernels.lists import COLUMNS, ROWS, load_vector, new_edges, place_edges
from phasewise_studies.painn.kernels.pairs import lattice_vector, pair_kernel, scan_kernel, unpack
from phasewise_studies.painn.layout import Atoms, Edges

BLOCK = 128
# runs of a program that adds them up: 128 rows of 27, and fewer in boxes so thin that a search reaches further
RUNS = 4096


def find_in_box(atoms: Atoms, box: Box, capacity: int) -> tuple[Edges, Tensor]:
    """The list with room for `capacity` edges, and the packed shift of each edge (E,) int32; nothing waits for the device.

    `overflow` counts edges without a place, and atoms that found no slot in their cell or are too far away.
    """
    assert atoms.start.shape[0] == 2, "one box at a time; batches of boxes go through find_plain"
    positions = atoms.positions.contiguous()
    if not has_kernel(positions.device):
        return find_in_box_plain(atoms, box, capacity)
    count, device = positions.shape[0], positions.device
    cells = box.cells[0] * box.cells[1] * box.cells[2]
    edges = new_edges(count, capacity, device)
    shift = torch.empty(capacity, dtype=torch.int32, device=device)
    # one count a cell, and one of the atoms that found no slot
    held = torch.zeros(cells + 1, dtype=torch.int32, device=device)
    member, home = (torch.empty(cells * box.slots, dtype=torch.int32, device=device) for _ in range(2))
    where = torch.empty((cells * box.slots, 3), dtype=torch.float64, device=device)
    counts, homes = (torch.empty(count, dtype=torch.int32, device=device) for _ in range(2))
    around = math.prod(2 * reach + 1 for reach in box.reach)
    runs = torch.empty(count * around, dtype=torch.int32, device=device)
    bin_kernel[(max(1, triton.cdiv(count, BLOCK)),)](
        member, homes, counts, held, positions, box.cell, count, cells, *box.cells, SLOTS=box.slots, BLOCK=BLOCK,
        num_warps=4,
    )  # fmt: skip
    pack_kernel[(cells,)](member, home, where, held, homes, positions, box.cell, SLOTS=box.slots, num_warps=4)
    width = triton.next_power_of_2(around)
    wide = max(1, RUNS // width)
    rows = min(ROWS, box.slots)
    # edges take more registers than lengths: two warps for a tile twice as wide
    for fill, columns, warps in ((False, rows, 1), (True, COLUMNS, 2)):
        if fill:
            scan_kernel[(max(1, triton.cdiv(count, wide)),)](
                edges.row_ptr, runs, edges.overflow, counts, held, count, cells, capacity, around,
                ROWS=wide, AROUND=width, num_warps=4,
            )  # fmt: skip
        pair_kernel[(cells * (box.slots // rows), around)](
            edges.i, edges.j, edges.r, edges.reverse, shift, counts, runs, edges.row_ptr, member, home, where, held,
            box.cell, count, capacity, 2.0 * box.cutoff, *box.cells, *box.reach,
            SQUARE=box.cutoff**2, FILL=fill, SLOTS=box.slots, ROWS=rows, COLUMNS=columns, num_warps=warps,
        )  # fmt: skip
    return edges, shift


def find_in_box_plain(atoms: Atoms, box: Box, capacity: int) -> tuple[Edges, Tensor]:
    """The same in plain PyTorch, by brute force; rows are ordered by neighbour and shift."""
    i, j, s = reference.find_neighbours(atoms, box.cutoff)
    edges = place_edges(atoms, i, j, s, box.cutoff, capacity)
    code = (s * torch.tensor([1, 1024, 1024**2], device=s.device)).sum(1).int()
    shift = torch.zeros(capacity, dtype=torch.int32, device=s.device)
    shift[: min(capacity, code.shape[0])] = code[:capacity]
    return edges, shift


@triton.jit
def share_of(x, y, z, cell, k: tl.constexpr):
    """How many times lattice vector k a place is out: s_k = (R . n) / (H_k . n) with n = H_(k+1) x H_(k+2)."""
    h_x, h_y, h_z = tl.load(cell + 3 * k), tl.load(cell + 3 * k + 1), tl.load(cell + 3 * k + 2)
    b: tl.constexpr = 3 * ((k + 1) % 3)
    c: tl.constexpr = 3 * ((k + 2) % 3)
    b_x, b_y, b_z = tl.load(cell + b), tl.load(cell + b + 1), tl.load(cell + b + 2)
    c_x, c_y, c_z = tl.load(cell + c), tl.load(cell + c + 1), tl.load(cell + c + 2)
    n_x, n_y, n_z = b_y * c_z - b_z * c_y, b_z * c_x - b_x * c_z, b_x * c_y - b_y * c_x
    return (x * n_x + y * n_y + z * n_z) / (h_x * n_x + h_y * n_y + h_z * n_z)


@triton.jit(do_not_specialize=["atoms", "cells", "n_x", "n_y", "n_z"])
def bin_kernel(
    member, homes, counts, held, positions, cell, atoms, cells, n_x, n_y, n_z, SLOTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """BLOCK atoms."""
    a = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = a < atoms
    x, y, z = load_vector(positions, a.to(tl.int64), valid)
    number = tl.zeros((BLOCK,), tl.int32)
    code, near = number, valid
    # what finds no slot has no neighbours
    tl.store(counts + a, number, mask=valid)
    for k in tl.static_range(3):
        s = share_of(x, y, z, cell, k)
        whole = tl.floor(s)
        n = n_x if k == 0 else (n_y if k == 1 else n_z)
        # a fraction just below 1 may round up to 1
        number = number * n + tl.minimum(((s - whole) * n).to(tl.int32), n - 1)
        # so asked, NaN is not; its number would be of no cell
        near = near & (tl.abs(whole) <= 250)
        code += whole.to(tl.int32) * (1 if k == 0 else (1024 if k == 1 else 1048576))
    tl.store(homes + a, code, mask=valid)
    slot = tl.atomic_add(held + number, tl.full((BLOCK,), 1, tl.int32), mask=near)
    fits = near & (slot < SLOTS)
    tl.store(member + number * SLOTS + slot, a, mask=fits)
    lost = tl.sum((valid & ~fits).to(tl.int32))
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
