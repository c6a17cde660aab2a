"""Tiles of edges on tensor cores, each number in the register that multiplies it: nothing is moved between threads.

    W (features x edges) = filter (features x numbers) . numbers (numbers x edges)                          numbers: `split.py`

The instruction is m16n8k16. Of its product, lane 4 l + k holds features l and l + 8 of sixteen for edges 2k and 2k + 1 of eight; of
its factors, numbers 2k, 2k + 1, 2k + 8, 2k + 9 of features l and l + 8, and of edge l. Which feature is called l, and which number k, is
free: a lane has WIDTH / 8 features that lie side by side, and eight such numbers, and reads either at once.

Names of axes in the comments below, with their lengths:

    k 4, l 8            the lane, 4 l + k
    warp WARPS          of the program
    eight EDGES / 8     which eight of the tile's edges (or of a factor's rows)
    pair 2              edge 2k or 2k + 1 of an eight
    own WIDTH / 8       which of the features of one lane

read as    (k, l, warp, eight, pair, own)
used as    (warp, feature, edge)      feature = (own, l) of WIDTH, edge = (eight, k, pair) of EDGES

Triton deals out its threads along the contiguous axis and then from the first axis on, so the order of axes above is what puts a
tile where the product will be; `test_painn_triton_compile.py` holds it to that.
"""

from __future__ import annotations

import triton
import triton.language as tl

# before 3.7 Triton deals out its threads along the contiguous axis and then from the first axis on; later from the last one on
BACKWARDS = tl.constexpr(tuple(int(n) for n in triton.__version__.split(".")[:2]) >= (3, 7))


@triton.jit
def order_axes(x):
    """The axes in the order in which threads are dealt out, and back: all but the contiguous one may change places."""
    if BACKWARDS:
        # tile: (k, l, warp, eight, pair, own) <-> (pair, eight, warp, l, k, own)
        # factor: (l, warp, eight, chunk, number) <-> (chunk, eight, warp, l, number)
        x = tl.permute(x, (4, 3, 2, 1, 0, 5) if len(x.shape) == 6 else (3, 2, 1, 0, 4))
    return x


@triton.jit
def read(at):
    """What stands there."""
    return order_axes(tl.load(order_axes(at)))


@triton.jit
def read_some(at, mask):
    """What stands there, and 0 where it is masked."""
    return order_axes(tl.load(order_axes(at), mask=order_axes(tl.broadcast_to(mask, at.shape)), other=0.0))


@triton.jit
def write_some(at, x, mask):
    """Put it there where it is not masked."""
    tl.store(order_axes(at), order_axes(x), mask=order_axes(tl.broadcast_to(mask, at.shape)))


@triton.jit
def tile_features(first, WARPS: tl.constexpr, WIDTH: tl.constexpr):
    """Features of a tile as it is read, from the first one of the program on."""
    lane = (tl.arange(0, 8) * (WIDTH // 8))[None, :, None, None, None, None]
    warp = (tl.arange(0, WARPS) * WIDTH)[None, None, :, None, None, None]
    # (1, l, warp, 1, 1, own)
    return first + warp + lane + tl.arange(0, WIDTH // 8)[None, None, None, None, None, :]


@triton.jit
def tile_edges(EDGES: tl.constexpr):
    """Edges of a tile as it is read, from 0 on."""
    eight = (tl.arange(0, EDGES // 8) * 8)[None, None, None, :, None, None]
    # (k, 1, 1, eight, pair, 1)
    return (
        eight
        + (tl.arange(0, 4) * 2)[:, None, None, None, None, None]
        + tl.arange(0, 2)[None, None, None, None, :, None]
    )


@triton.jit
def load_tile(at):
    """Numbers for each feature and edge, (WARPS, WIDTH, EDGES)."""
    # (k, l, warp, eight, pair, own) -> (warp, own, l, eight, k, pair) -> (warp, feature, edge)
    x = tl.permute(read(at), (2, 5, 1, 3, 0, 4))
    return tl.reshape(x, (x.shape[0], x.shape[1] * 8, x.shape[3] * 8))


@triton.jit
def load_row(at, EDGES: tl.constexpr):
    """Numbers for each feature, the same for all edges of a tile."""
    WARPS: tl.constexpr = at.shape[2]
    OWN: tl.constexpr = at.shape[5]
    # (k, l, warp, 1, 1, own) -> (warp, own, l, 1, k, 1), stretched to (warp, own, l, eight, k, pair) -> (warp, feature, edge)
    x = tl.permute(read(tl.broadcast_to(at, (4, 8, WARPS, 1, 1, OWN))), (2, 5, 1, 3, 0, 4))
    return tl.reshape(tl.broadcast_to(x, (WARPS, OWN, 8, EDGES // 8, 4, 2)), (WARPS, OWN * 8, EDGES))


@triton.jit
def choose_three(which, a, b, c):
    """The first, second or third, by `which`."""
    return tl.where(which == 0, a, tl.where(which == 1, b, c))


@triton.jit
def lay_out(x):
    """What stands in a tile of eight edges, in the order in which it is read and written."""
    # (warp, feature, edge) -> (warp, own, l, eight 1, k, pair) -> (k, l, warp, eight 1, pair, own)
    x = tl.reshape(x, (x.shape[0], x.shape[1] // 8, 8, 1, 4, 2))
    return tl.permute(x, (4, 2, 0, 3, 5, 1))


@triton.jit
def load_operand(at, WARPS: tl.constexpr, DEPTH: tl.constexpr):
    """DEPTH numbers of each row of `at` (8, WARPS or 1, rows / 8, 1, 1) as a factor, (WARPS, rows, DEPTH).

    Rows are (eight, l): features, whose `eight` is `own`, or edges. Numbers are read in chunks of 32, eight by each k.
    """
    EIGHTS: tl.constexpr = at.shape[2]
    number = tl.arange(0, DEPTH // 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    # (l, warp, eight, chunk, number)
    x = read(tl.broadcast_to(at + number[None, None, None, :, :], (8, WARPS, EIGHTS, DEPTH // 32, 32)))
    # of the eight numbers of a lane, pairs are kept, and go to the two halves of two instructions:
    # (l, warp, eight, chunk, k, instruction 2, half 2, number of a pair 2)
    # -> (warp, eight, l, chunk, instruction, half, k, number of a pair) -> (warp, row, number)
    x = tl.reshape(x, (8, WARPS, EIGHTS, DEPTH // 32, 4, 2, 2, 2))
    return tl.reshape(tl.permute(x, (1, 2, 0, 3, 5, 6, 4, 7)), (WARPS, EIGHTS * 8, DEPTH))


@triton.jit
def load_factor(filters, first, WARPS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr):
    """One part of the filter for the features of a program, (WARPS, WIDTH, DEPTH): it stays in registers."""
    lane, own = tl.arange(0, 8)[:, None, None] * (WIDTH // 8), tl.arange(0, WIDTH // 8)[None, None, :]
    feature = first + tl.arange(0, WARPS)[None, :, None] * WIDTH + lane + own
    return load_operand(filters + feature[:, :, :, None, None] * DEPTH, WARPS, DEPTH)


@triton.jit
def load_filters(
    filters, first, FEATURES: tl.constexpr, WARPS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, HAS_MU: tl.constexpr
):  # fmt: skip
    """The parts q, R and mu; without mu the last is never read."""
    part_q = load_factor(filters, first, WARPS, WIDTH, DEPTH)
    part_r = load_factor(filters + FEATURES * DEPTH, first, WARPS, WIDTH, DEPTH)
    part_m = part_r
    if HAS_MU:
        part_m = load_factor(filters + 2 * FEATURES * DEPTH, first, WARPS, WIDTH, DEPTH)
    return part_q, part_r, part_m


@triton.jit
def load_numbers(numbers, e, WARPS: tl.constexpr, DEPTH: tl.constexpr):
    """The numbers of the edges e (8, 1, eights, 1, 1) as the other factor, (WARPS, DEPTH, EDGES)."""
    # (warp, edge, number) -> (warp, number, edge)
    return tl.permute(load_operand(numbers + e * DEPTH, WARPS, DEPTH), (0, 2, 1))


@triton.jit
def factor_edges(EDGES: tl.constexpr):
    """Edges of a tile as their numbers are read, from 0 on."""
    # (l, 1, eight, 1, 1)
    return tl.arange(0, 8)[:, None, None, None, None] + (tl.arange(0, EDGES // 8) * 8)[None, None, :, None, None]


@triton.jit
def load_ends(ends, e, WARPS: tl.constexpr):
    """u and 1/d of the edges e (4, 1, 1, eights, 2, 1), each (WARPS, 8, EDGES): the same for the eight lanes of an edge."""
    EIGHTS: tl.constexpr = e.shape[3]
    at = tl.broadcast_to(ends + e * 4 + tl.arange(0, 4)[None, None, None, None, None, :], (4, 8, WARPS, EIGHTS, 2, 4))
    # (k, l, warp, eight, pair, u_x u_y u_z 1/d) -> (k, l, warp, eight, pair, first or second two, even or odd)
    even, odd = tl.split(tl.reshape(read(at), (4, 8, WARPS, EIGHTS, 2, 2, 2)))
    u_x, u_z = tl.split(even)
    u_y, inverse = tl.split(odd)
    return by_lane(u_x), by_lane(u_y), by_lane(u_z), by_lane(inverse)


@triton.jit
def read_edges(j, ends, numbers, e0, end, edges, WARPS: tl.constexpr, DEPTH: tl.constexpr, EDGES: tl.constexpr):
    """Of the tile from e0 on in a row that ends at `end`: the other atom of its edges, their numbers, u and 1/d.

    An edge past the end is the last one again, with numbers of zero, which stand behind those of all edges.
    """
    e = tl.maximum(tl.minimum(e0 + tile_edges(EDGES), end - 1), 0).to(tl.int64)
    other = tl.load(j + e)
    u_x, u_y, u_z, inverse = load_ends(ends, e, WARPS)
    place = e0 + factor_edges(EDGES)
    record = load_numbers(numbers, tl.where(place < end, place, edges).to(tl.int64), WARPS, DEPTH)
    return other, record, u_x, u_y, u_z, inverse


@triton.jit
def by_lane(x):
    """(4, 8, WARPS, EDGES / 8, 2) as (WARPS, 8, EDGES)."""
    # (k, l, warp, eight, pair) -> (warp, l, eight, k, pair) -> (warp, l, edge)
    return tl.reshape(tl.permute(x, (2, 1, 3, 0, 4)), (x.shape[2], 8, x.shape[3] * 8))


@triton.jit
def for_features(x, WIDTH: tl.constexpr):
    """(WARPS, 8, EDGES) as (WARPS, WIDTH, EDGES)."""
    WARPS: tl.constexpr = x.shape[0]
    EDGES: tl.constexpr = x.shape[2]
    # (warp, l, edge) -> (warp, own, l, edge) -> (warp, feature, edge)
    x = tl.broadcast_to(x[:, None, :, :], (WARPS, WIDTH // 8, 8, EDGES))
    return tl.reshape(x, (WARPS, WIDTH, EDGES))


@triton.jit
def of_lanes(x):
    """(WARPS, WIDTH, EDGES) as (WARPS, WIDTH / 8, 8, EDGES): what one lane has stands along the second axis."""
    # (warp, feature, edge) -> (warp, own, l, edge)
    return tl.reshape(x, (x.shape[0], x.shape[1] // 8, 8, x.shape[2]))


@triton.jit
def add_own(total, x):
    """total (WARPS, WIDTH, 4) and the edges that one lane has of x (WARPS, WIDTH, EDGES), one after the other."""
    # (warp, feature, edge) -> (warp, feature, eight, k, pair), split by the edge of a pair; total is (warp, feature, k)
    even, odd = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2] // 8, 4, 2)))
    if x.shape[2] > 8:
        even, odd = tl.sum(even, 2), tl.sum(odd, 2)
    return total + tl.reshape(even, total.shape) + tl.reshape(odd, total.shape)


@triton.jit
def sum_three(a, b, c, d, e, f):
    """Three sums at once: their shuffles hide each other's latency."""
    return a + d, b + e, c + f


@triton.jit
def sum_four(a, b, c, d, e, f, g, h):
    """Four sums at once."""
    return a + e, b + f, c + g, d + h
