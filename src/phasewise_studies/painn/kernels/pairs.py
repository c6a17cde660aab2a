"""Pairs of cells: runs of neighbours, where they begin, and edges with their opposites.

The neighbours that atom a has in the k-th of the cells around its own are a run, and rows are runs side by side. A program takes some
atoms of a cell and one k, so that there are thousands of them in a small box; each forms one tile of distances, or a few, twice:

count  length of each run (a, k)
scan   its begin
fill   edge (a <- b) stands at begin(a, k) + neighbours of a in the tile before b

The same tile tells the opposite: seen from b, a is in the cell around with the last number for the first and so on, and (b <- a) stands
at begin(b, last - k) + neighbours of b in the tile before a. Nothing is searched.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise_studies.painn.kernels.lists import fill_empty, load_vector, store_edges, sum_before


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


@triton.jit(do_not_specialize=["atoms", "cells", "capacity", "around"])
def scan_kernel(
    row_ptr, runs, overflow, counts, held, atoms, cells, capacity, around, ROWS: tl.constexpr, AROUND: tl.constexpr
):  # fmt: skip
    """Where ROWS rows and their runs begin; each program adds up all counts before its own, which are few and in cache."""
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    valid = rows < atoms
    count = tl.load(counts + rows, mask=valid, other=0)
    begin = sum_before(counts, block * ROWS, 4096) + tl.cumsum(count, 0) - count
    tl.store(row_ptr + rows, tl.minimum(begin, capacity), mask=valid)
    k = tl.arange(0, AROUND)[None, :]
    inside = valid[:, None] & (k < around)
    at = runs + rows.to(tl.int64)[:, None] * around + k
    run = tl.load(at, mask=inside, other=0)
    tl.store(at, begin[:, None] + tl.cumsum(run, 1) - run, mask=inside)
    if block == tl.num_programs(0) - 1:
        total = tl.max(begin + count)
        tl.store(row_ptr + atoms, tl.minimum(total, capacity))
        tl.store(overflow, tl.maximum(total - capacity, 0) + tl.load(held + cells))


@triton.jit
def wrap(index, n):
    """Which image of the box a cell index stands in, rounding down, and the index inside.

    A division of floats is a fifth of one of integers, and here exact: half of 1 / n away from the next whole number.
    """
    image = tl.floor((index + 0.5) / n).to(tl.int32)
    return image, index - image * n


@triton.jit
def load_slots(member, where, slot, valid):
    """Atoms in slots, and their wrapped positions."""
    a = tl.load(member + slot, mask=valid, other=0)
    x, y, z = load_vector(where, slot.to(tl.int64), valid)
    return a, x, y, z


@triton.jit
def measure(a, x, y, z, valid, b, b_x, b_y, b_z, exists, o_x, o_y, o_z, image, SQUARE: tl.constexpr):
    """Which of a tile's pairs are neighbours, and their vectors. `image`: of another box."""
    dx = (b_x[None, :] - x[:, None]) + o_x
    dy = (b_y[None, :] - y[:, None]) + o_y
    dz = (b_z[None, :] - z[:, None]) + o_z
    # a float argument would be float32
    near = dx * dx + dy * dy + dz * dz < tl.full((1, 1), SQUARE, tl.float64)
    # an atom is no neighbour of itself, but its images are
    near = near & valid[:, None] & exists[None, :] & (a[:, None] != tl.where(image, -1, b)[None, :])
    return near, dx, dy, dz


@triton.jit(do_not_specialize=["atoms", "capacity", "n_x", "n_y", "n_z", "reach_x", "reach_y", "reach_z"])
def pair_kernel(
    i, j, r, reverse, shift, counts, runs, row_ptr, member, home, where, held, cell, atoms, capacity, far,
    n_x, n_y, n_z, reach_x, reach_y, reach_z,
    SQUARE: tl.constexpr, FILL: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS slots of a cell against one of the cells that the cutoff reaches: lengths of runs, or (FILL) edges."""
    group, k, around = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    number, first = group // (SLOTS // ROWS), group % (SLOTS // ROWS) * ROWS
    k_xy, k_z = wrap(k, 2 * reach_z + 1)
    k_x, k_y = wrap(k_xy, 2 * reach_y + 1)
    at_xy = number // n_z
    at_x = at_xy // n_y
    s_x, d_x = wrap(at_x + k_x - reach_x, n_x)
    s_y, d_y = wrap(at_xy - at_x * n_y + k_y - reach_y, n_y)
    s_z, d_z = wrap(number - at_xy * n_z + k_z - reach_z, n_z)
    here, there = number * SLOTS, ((d_x * n_y + d_y) * n_z + d_z) * SLOTS
    o_x, o_y, o_z = lattice_vector(s_x, s_y, s_z, cell)
    image = tl.abs(s_x) + tl.abs(s_y) + tl.abs(s_z) > 0
    mine = tl.minimum(tl.load(held + number), SLOTS)
    # rows that are all empty meet nobody
    theirs = tl.where(first < mine, tl.minimum(tl.load(held + there // SLOTS), SLOTS), 0)
    slot = first + tl.arange(0, ROWS)
    valid = slot < mine
    a, x, y, z = load_slots(member, where, here + slot, valid)
    run = runs + a.to(tl.int64) * around + k
    seen = tl.zeros((ROWS,), tl.int32)
    if FILL:
        seen = tl.load(run, mask=valid, other=0)
        homes = tl.load(home + here + slot, mask=valid, other=0)
    for begin in range(0, theirs, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        exists = column < theirs
        b, b_x, b_y, b_z = load_slots(member, where, there + column, exists)
        near, dx, dy, dz = measure(a, x, y, z, valid, b, b_x, b_y, b_z, exists, o_x, o_y, o_z, image, SQUARE)
        one = near.to(tl.int32)
        if FILL:
            before = tl.load(runs + b.to(tl.int64) * around + (around - 1 - k), mask=exists, other=0)
            # the rows of the cell that other programs take
            for above in range(0, first, ROWS):
                up = here + above + tl.arange(0, ROWS)
                full = up >= here
                c, c_x, c_y, c_z = load_slots(member, where, up, full)
                also = measure(c, c_x, c_y, c_z, full, b, b_x, b_y, b_z, exists, o_x, o_y, o_z, image, SQUARE)
                before += tl.sum(also[0].to(tl.int32), 0)
            place = seen[:, None] + tl.cumsum(one, 1) - one
            back = before[None, :] + tl.cumsum(one, 0) - one
            store_edges(i, j, r, place, near, a[:, None], b[None, :], dx, dy, dz, capacity)
            has_room = near & (place < capacity)
            # an opposite is missing only where the list overflowed
            tl.store(reverse + place, tl.where(back < capacity, back, place), mask=has_room)
            away = tl.load(home + there + column, mask=exists, other=0)
            code = (s_x + 1024 * s_y + 1048576 * s_z) - away[None, :] + homes[:, None]
            tl.store(shift + place, code, mask=has_room)
        seen += tl.sum(one, 1)
    if FILL:
        share = group * around + k
        fill_empty(
            i, j, r, reverse, tl.load(row_ptr + atoms), share, tl.num_programs(0) * around, capacity, far, COLUMNS
        )
    else:
        tl.store(run, seen, mask=valid)
        # whole numbers: the sum is the same in any order
        tl.atomic_add(counts + a, seen, mask=valid & (seen > 0))
