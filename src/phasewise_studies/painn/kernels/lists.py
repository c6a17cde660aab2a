"""What the neighbour lists share: places by counting, the opposite edge of each edge, empty places.

A list is built in two walks over the same candidates: the first counts the neighbours of each atom, the second knows from the
counts where each row begins and writes it. Rows and their order depend on nothing but the positions, so a repeated build gives
the same bits; sizes are fixed on the host beforehand, so nothing waits for the device and a CUDA graph can hold it all.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.painn import reference
from phasewise_studies.painn.layout import Atoms, Edges, pad_edges

# rows and candidates of a tile of distances
ROWS, COLUMNS = 16, 32
# edges of a program that looks for opposites: beside 32 places each, or halving
EDGES = 32
SORTED_EDGES = 128


def new_edges(atoms: int, capacity: int, device: torch.device) -> Edges:
    """A list with room for `capacity` edges, not yet written."""

    def room(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    assert capacity > 0, "a list needs room for one edge at least"
    return Edges(
        row_ptr=room(atoms + 1), i=room(capacity), j=room(capacity), r=room(capacity, 3, dtype=torch.float32),
        reverse=room(capacity), overflow=room(),
    )  # fmt: skip


def find_plain(atoms: Atoms, cutoff: float, capacity: int) -> Edges:
    """The list in plain PyTorch, by brute force; waits for the device."""
    i, j, shift = reference.find_neighbours(atoms, cutoff)
    return place_edges(atoms, i, j, shift, cutoff, capacity)


def place_edges(atoms: Atoms, i: Tensor, j: Tensor, shift: Tensor | None, cutoff: float, capacity: int) -> Edges:
    """Edges of `reference.find_neighbours` in exactly `capacity` places."""
    if i.numel():
        return cut_edges(reference.as_edges(atoms, i, j, shift), capacity, cutoff)
    none = torch.zeros(0, dtype=torch.int32, device=i.device)
    rows = torch.zeros(atoms.positions.shape[0] + 1, dtype=torch.int32, device=i.device)
    empty = Edges(rows, none, none, torch.zeros(0, 3, device=i.device), none, rows[0].clone())
    return pad_edges(empty, capacity, cutoff)


def cut_edges(edges: Edges, capacity: int, cutoff: float) -> Edges:
    """A list of exactly `capacity` places: what has no room is counted in `overflow` and left out."""
    found = edges.j.shape[0]
    if found <= capacity:
        return pad_edges(edges, capacity, cutoff)
    reverse = edges.reverse[:capacity]
    places = torch.arange(capacity, dtype=reverse.dtype, device=reverse.device)
    return Edges(
        row_ptr=edges.row_ptr.clamp(max=capacity), i=edges.i[:capacity], j=edges.j[:capacity], r=edges.r[:capacity],
        reverse=torch.where(reverse < capacity, reverse, places), overflow=edges.overflow + (found - capacity),
    )  # fmt: skip


def finish_edges(edges: Edges, cutoff: float, *, ascending: bool = False) -> None:
    """Write `reverse` of each edge, and what an empty place holds. `ascending`: each row is in the order of j, and has no j twice."""
    capacity = edges.j.shape[0]
    shared = (
        edges.reverse, edges.i, edges.j, edges.r, edges.row_ptr, edges.row_ptr.shape[0] - 1, capacity, 2.0 * cutoff,
    )  # fmt: skip
    if ascending:
        reverse_sorted_kernel[(max(1, triton.cdiv(capacity, SORTED_EDGES)),)](*shared, EDGES=SORTED_EDGES, num_warps=4)
    else:
        reverse_kernel[(max(1, triton.cdiv(capacity, EDGES)),)](*shared, EDGES=EDGES, COLUMNS=COLUMNS, num_warps=4)


@triton.jit
def sum_before(totals, count, CHUNK: tl.constexpr):
    """Sum of the first `count` totals."""
    total = tl.zeros((CHUNK,), tl.int32)
    at = tl.arange(0, CHUNK)
    for begin in range(0, count, CHUNK):
        total += tl.load(totals + begin + at, mask=begin + at < count, other=0)
    return tl.sum(total)


@triton.jit
def begin_rows(row_ptr, overflow, counts, totals, rows, valid, block, last, atoms, capacity, lost):
    """Where each row of this block begins, not clipped; row_ptr is written clipped to the room there is.

    `lost` are edges that were missing beforehand.
    """
    count = tl.load(counts + rows, mask=valid, other=0)
    begin = sum_before(totals, block, 1024) + tl.cumsum(count, 0) - count
    tl.store(row_ptr + rows, tl.minimum(begin, capacity), mask=valid)
    if block == last:
        total = tl.max(begin + count)
        tl.store(row_ptr + atoms, tl.minimum(total, capacity))
        tl.store(overflow, tl.maximum(total - capacity, 0) + lost)
    return begin


@triton.jit
def store_edges(i, j, r, place, here, rows, candidates, x, y, z, capacity):
    """A tile of edges at their places; those beyond the capacity are dropped."""
    here = here & (place < capacity)
    tl.store(i + place, rows + tl.zeros_like(place), mask=here)
    tl.store(j + place, candidates + tl.zeros_like(place), mask=here)
    at = r + place.to(tl.int64) * 3
    tl.store(at, x.to(tl.float32), mask=here)
    tl.store(at + 1, y.to(tl.float32), mask=here)
    tl.store(at + 2, z.to(tl.float32), mask=here)


@triton.jit
def load_vector(base, at, mask):
    """Three neighbouring numbers, 0 where masked."""
    x = tl.load(base + at * 3, mask=mask, other=0.0)
    y = tl.load(base + at * 3 + 1, mask=mask, other=0.0)
    z = tl.load(base + at * 3 + 2, mask=mask, other=0.0)
    return x, y, z


@triton.jit(do_not_specialize=["atoms", "capacity"])
def reverse_kernel(
    reverse, i, j, r, row_ptr, atoms, capacity, far, EDGES: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """For EDGES edges (i <- j): the place in the row of j whose neighbour is i and whose r is exactly the opposite.

    r is subtracted so that the two directions differ in sign alone; two images of one atom differ in r.
    """
    e = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    room = e < capacity
    real = e < tl.load(row_ptr + atoms)
    receiver = tl.load(i + e, mask=real, other=0)
    sender = tl.load(j + e, mask=real, other=0)
    x, y, z = load_vector(r, e.to(tl.int64), real)
    low = tl.load(row_ptr + sender, mask=real, other=0)
    high = tl.load(row_ptr + sender + 1, mask=real, other=0)
    found = tl.full((EDGES,), -1, tl.int32)
    for begin in range(0, tl.max(high - low), COLUMNS):
        place = low[:, None] + begin + tl.arange(0, COLUMNS)[None, :]
        inside = place < high[:, None]
        match = inside & (tl.load(j + place, mask=inside, other=-1) == receiver[:, None])
        # only the few that name the right atom have their vectors read
        there_x, there_y, there_z = load_vector(r, place.to(tl.int64), match)
        match = match & (there_x == -x[:, None]) & (there_y == -y[:, None]) & (there_z == -z[:, None])
        found = tl.maximum(found, tl.max(tl.where(match, place, -1), 1))
    store_opposites(reverse, i, j, r, e, found, room, room & ~real, far)


@triton.jit(do_not_specialize=["atoms", "capacity"])
def reverse_sorted_kernel(reverse, i, j, r, row_ptr, atoms, capacity, far, EDGES: tl.constexpr):
    """The same where rows ascend: halve the row of j until only the place is left at which i has to be."""
    e = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    room = e < capacity
    real = e < tl.load(row_ptr + atoms)
    receiver = tl.load(i + e, mask=real, other=0)
    sender = tl.load(j + e, mask=real, other=0)
    low = tl.load(row_ptr + sender, mask=real, other=0)
    end = tl.load(row_ptr + sender + 1, mask=real, other=0)
    high = end
    while tl.max(high - low) > 0:
        middle = (low + high) // 2
        before = (low < high) & (tl.load(j + middle, mask=low < high, other=0) < receiver)
        high = tl.where(before, high, tl.minimum(high, middle))
        low = tl.where(before, middle + 1, low)
    here = real & (low < end)
    here = here & (tl.load(j + low, mask=here, other=-1) == receiver)
    store_opposites(reverse, i, j, r, e, tl.where(here, low, -1), room, room & ~real, far)


@triton.jit
def store_opposites(reverse, i, j, r, e, found, room, empty, far):
    """Where the opposites are, and what an empty place holds. One may be missing only where the list overflowed."""
    tl.store(reverse + e, tl.where(found >= 0, found, e), mask=room)
    store_empty(i, j, r, e, empty, far)


@triton.jit
def store_empty(i, j, r, e, empty, far):
    """What an empty place holds, but for its opposite, which is itself."""
    tl.store(i + e, tl.zeros_like(e), mask=empty)
    tl.store(j + e, tl.zeros_like(e), mask=empty)
    at = r + e.to(tl.int64) * 3
    none = tl.zeros_like(e).to(tl.float32)
    tl.store(at, none + far, mask=empty)
    tl.store(at + 1, none, mask=empty)
    tl.store(at + 2, none, mask=empty)


@triton.jit
def fill_empty(i, j, r, reverse, total, share, shares, capacity, far, SOME: tl.constexpr):
    """One of so many shares of the empty places from `total` on."""
    for begin in range(total + share * SOME, capacity, shares * SOME):
        e = begin + tl.arange(0, SOME)
        tl.store(reverse + e, e, mask=e < capacity)
        store_empty(i, j, r, e, e < capacity, far)
