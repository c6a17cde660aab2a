"""Triton device functions that move the data of one warp: chunks into columns and back, values between neighbours.

A program is one warp. Lane j holds chunk `first + j` of a row: CHUNK consecutive positions. Column i of a tile (32, CHUNK) is
a tensor (32,) with position i of every chunk. A complex number is a pair of float32 tensors (32,).
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
def put(pointer, columns, first, low, high, length, WIDTH: tl.constexpr):
    """Write the chunks low <= chunk < high of a contiguous row of `length` values."""
    at = positions(first, WIDTH)
    chunk = first + tl.arange(0, LANES)[:, None]
    tl.store(pointer + at, weave(columns, WIDTH), mask=(chunk >= low) & (chunk < high) & (at < length))


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
