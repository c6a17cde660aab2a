"""Triton device functions that move the data of one warp: between memory and columns, and between neighbouring lanes.

A program is one warp. Lane j holds chunk `first + j` of a row: CHUNK consecutive positions. Column i of a tile (32, CHUNK) is
a tensor (32,) with position i of every chunk. A complex number is a pair of float32 tensors (32,).

Axes of a tile (LANES, WIDTH): 0 is the lane, that is the chunk; 1 is the position in the chunk, or for pairs twice that, re and im
in turns. An index [:, None] runs over lanes, [None, :] over positions.
"""

from __future__ import annotations

import triton
import triton.language as tl

LANES = tl.constexpr(32)


@triton.jit
def unweave(tile, WIDTH: tl.constexpr):
    """(32, WIDTH) as WIDTH columns, in order."""
    if WIDTH == 1:
        return (tl.reshape(tile, (LANES,)),)
    else:
        # (lane, position) -> (lane, position // 2, even or odd); split takes the last axis apart
        even, odd = tl.split(tl.reshape(tile, (LANES, WIDTH // 2, 2)))
        evens = unweave(even, WIDTH // 2)
        odds = unweave(odd, WIDTH // 2)
        columns = ()
        for i in tl.static_range(WIDTH // 2):
            columns += (evens[i], odds[i])
        return columns


@triton.jit
def weave(columns, WIDTH: tl.constexpr):
    """WIDTH columns as (32, WIDTH), in order."""
    # join and interleave: (lane, position // 2) of even and of odd ones -> (lane, position)
    if WIDTH == 2:
        return tl.join(columns[0], columns[1])
    else:
        return tl.interleave(weave(columns[0::2], WIDTH // 2), weave(columns[1::2], WIDTH // 2))


@triton.jit
def positions(first, WIDTH: tl.constexpr):
    """(32, WIDTH): where each element of the tile lies in its row; below 0 or beyond the end at a row's borders."""
    return (first + tl.arange(0, LANES)[:, None]) * WIDTH + tl.arange(0, WIDTH)[None, :]


@triton.jit
def fetch(pointer, stride, first, length, other, WIDTH: tl.constexpr):
    """A tile (32, WIDTH) of a row of `length` values; `other` outside of it."""
    at = positions(first, WIDTH)
    return tl.load(pointer + at.to(tl.int64) * stride, mask=(at >= 0) & (at < length), other=other)


@triton.jit
def fetch_couplings(b, c, stride_bn, stride_cn, first, length, WIDTH: tl.constexpr):
    """Tiles of the couplings b and c, of which there are length - 1; 0 outside of the row.

    A mask that ends at an odd place keeps loads from being wide, and only a row's last tile needs one.
    """
    if ((first + LANES) * WIDTH < length) & (first >= 0):
        at = positions(first, WIDTH).to(tl.int64)
        b_tile, c_tile = tl.load(b + at * stride_bn), tl.load(c + at * stride_cn)
    else:
        b_tile = fetch(b, stride_bn, first, length - 1, 0.0, WIDTH)
        c_tile = fetch(c, stride_cn, first, length - 1, 0.0, WIDTH)
    return b_tile, c_tile


@triton.jit
def put(pointer, columns, first, low, high, length, WIDTH: tl.constexpr):
    """Write the chunks low <= chunk < high of a contiguous row of `length` values.

    In pieces of 8 values, a 32-byte sector of each lane: the lanes exchange fewer of them than for a wider one.
    """
    SECTOR: tl.constexpr = 8 if WIDTH > 8 else WIDTH
    chunk = first + tl.arange(0, LANES)[:, None]
    wanted = (chunk >= low) & (chunk < high)
    for piece in tl.static_range(WIDTH // SECTOR):
        at = chunk * WIDTH + (piece * SECTOR + tl.arange(0, SECTOR)[None, :])
        values = weave(columns[piece * SECTOR : (piece + 1) * SECTOR], SECTOR)
        tl.store(pointer + at, values, mask=wanted & (at < length))


@triton.jit
def pick(value, lane):
    """The value of one lane in all lanes."""
    return tl.gather(value, lane + 0 * tl.arange(0, LANES), 0)


@triton.jit
def from_left(pair, edge):
    """The value of the lane before; `edge` in the first lane. A shuffle: no shared memory, no barrier."""
    lane = tl.arange(0, LANES)
    before = tl.maximum(lane - 1, 0)
    re, im = tl.gather(pair[0], before, 0), tl.gather(pair[1], before, 0)
    return tl.where(lane == 0, edge[0], re), tl.where(lane == 0, edge[1], im)


@triton.jit
def from_right(pair, edge):
    """The value of the next lane; `edge` in the last lane."""
    lane = tl.arange(0, LANES)
    after = tl.minimum(lane + 1, LANES - 1)
    re, im = tl.gather(pair[0], after, 0), tl.gather(pair[1], after, 0)
    return tl.where(lane == LANES - 1, edge[0], re), tl.where(lane == LANES - 1, edge[1], im)


@triton.jit
def fetch_edge(b, c, stride_bn, stride_cn, first, length, CHUNK: tl.constexpr):
    """b and c of the position before a tile; 0 outside of the row."""
    at = tl.cast(first, tl.int64) * CHUNK - 1
    inside = (at >= 0) & (at < length - 1)
    return tl.load(b + at * stride_bn, mask=inside, other=0.0), tl.load(c + at * stride_cn, mask=inside, other=0.0)


@triton.jit
def split_couplings(tile, edge, CHUNK: tl.constexpr):
    """k_s .. k_t of each chunk from a tile of b c, and k_{s-1}; `edge` is that of the first chunk."""
    k = unweave(tile, CHUNK)
    left, _ = from_left((k[CHUNK - 1], k[CHUNK - 1]), (edge, edge))
    return k, left


@triton.jit
def load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, first, length, CHUNK: tl.constexpr):
    """Re alpha, k and k_{s-1} of 32 chunks; 1 and 0 outside of the row."""
    # all are asked for before any is waited for
    raw = fetch(a, stride_an, first, length, energy + 1.0, CHUNK)
    edge_b, edge_c = fetch_edge(b, c, stride_bn, stride_cn, first, length, CHUNK)
    b_tile, c_tile = fetch_couplings(b, c, stride_bn, stride_cn, first, length, CHUNK)
    k, left = split_couplings(b_tile * c_tile, edge_b * edge_c, CHUNK)
    return unweave(raw - energy, CHUNK), k, left
