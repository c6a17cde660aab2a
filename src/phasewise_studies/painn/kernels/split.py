"""Filters and records as halves, whose products on tensor cores have the error of float32.

    64 x = x_1 + x_2        2^s w = w_1 + w_2        64 2^s sum_n x_n w_n = sum_n x_1 w_1 + x_1 w_2 + x_2 w_1        (left out: x_2 w_2, 2^-22)

Each half has 11 bits, so two of them have those of float32; the three products of K + 1 numbers are one product of 3 (K + 1), and
lie side by side: (x_1, x_1, x_2) and (w_1, w_2, w_1), then zeros up to a power of two. The scales are powers of two: they keep x_2 and
w_2 among the normal numbers. s is chosen for each layer, so that no weight is too large for a half.

272 B an edge in place of 184, of which each row of 128 B is one line of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.painn.kernels.radial import evaluate_radial, load_vector
from phasewise_studies.painn.layout import Sizes

# of a record: a Bessel function of 63 rad up to the cutoff has slopes of 70 per Angstrom, and a half ends at 65,504
SCALE = tl.constexpr(64.0)
# the largest weight of a layer is below 2^15
BITS = 15
BLOCK = 16


@dataclass(frozen=True)
class SplitFilter:
    """Filters of layers, (L, 3F, depth) halves, and what their products are to be multiplied with, (L,); or those of one layer."""

    halves: Tensor
    unit: Tensor

    def __getitem__(self, layer: int) -> SplitFilter:
        return SplitFilter(self.halves[layer], self.unit[layer])


@dataclass(frozen=True)
class SplitRecords:
    """Numbers of each edge, (E + 1, depth) halves, and their slopes (E, depth); u and 1/d, (E, 4).

    The numbers of place E are 0: those of the edges past the end of a row.
    """

    numbers: Tensor
    slopes: Tensor
    ends: Tensor


@dataclass(frozen=True)
class Split:
    """What a message reads of its edges and of its filter."""

    records: SplitRecords
    filters: SplitFilter


def find_depth(count: int) -> int:
    """How many halves stand for `count` numbers."""
    return max(32, triton.next_power_of_2(3 * count))


def split_filters(filters: Tensor) -> SplitFilter:
    """Of `message.pack_filter`, (L, K + 1, 3F); once, when the model is made."""
    layers, count, columns = filters.shape
    largest = filters.abs().amax(dim=(1, 2)).nan_to_num(1.0, 1.0)
    # not beyond what float32 can scale
    bits = BITS - torch.frexp(largest).exponent.clamp(min=-100)
    scaled = torch.ldexp(filters, bits[:, None, None]).transpose(1, 2)
    high = scaled.half()
    low = (scaled - high.float()).half()
    rest = high.new_zeros(layers, columns, find_depth(count) - 3 * count)
    halves = torch.cat((high, low, high, rest), dim=2).contiguous()
    return SplitFilter(halves, torch.ldexp(torch.ones_like(largest), -bits) / SCALE.value)


def split_edges(r: Tensor, row_ptr: Tensor, sizes: Sizes, *, slopes: bool = True) -> SplitRecords:
    """The records of `radial.edge_records` as halves, from edge vectors r (E, 3) float32. Needs a GPU, as what reads them does."""
    edges, depth = r.shape[0], find_depth(sizes.radial + 1)
    numbers = torch.empty((edges + 1, depth), dtype=torch.float16, device=r.device)
    steep = torch.empty((edges if slopes else 0, depth), dtype=torch.float16, device=r.device)
    ends = torch.empty((edges, 4), dtype=torch.float32, device=r.device)
    split_edge_kernel[(triton.cdiv(edges + 1, BLOCK),)](
        numbers, steep, ends, r, row_ptr, row_ptr.shape[0] - 1, edges, sizes.cutoff,
        RADIAL=sizes.radial, DEPTH=depth, GAUSSIAN=sizes.basis == "gaussian", SLOPES=slopes, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return SplitRecords(numbers, steep, ends)


@triton.jit
def choose_half(x, term):
    """x_1, x_1, x_2 by term, and 0 behind them."""
    x *= SCALE
    high = x.to(tl.float16)
    return tl.where(term < 2, high, tl.where(term == 2, (x - high.to(tl.float32)).to(tl.float16), 0.0))


@triton.jit(do_not_specialize=["atoms", "edges"])
def split_edge_kernel(
    numbers, slopes, ends, r, row_ptr, atoms, edges, cutoff,
    RADIAL: tl.constexpr, DEPTH: tl.constexpr, GAUSSIAN: tl.constexpr, SLOPES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK edges a program; a number is evaluated anew for each of its halves."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = e < tl.minimum(tl.load(row_ptr + atoms), edges)
    x, y, z, d = load_vector(r, e, real)
    inverse = 1.0 / d
    place = tl.arange(0, DEPTH)[None, :]
    term = place // (RADIAL + 1)
    number, steep = evaluate_radial(d, inverse, place % (RADIAL + 1), cutoff, RADIAL, GAUSSIAN)
    at, inside, nobody = e[:, None] * DEPTH + place, real[:, None], (e == edges)[:, None]
    tl.store(numbers + at, tl.where(nobody, 0.0, choose_half(number, term)), mask=inside | nobody)
    if SLOPES:
        tl.store(slopes + at, choose_half(steep, term), mask=inside)
    tl.store(ends + e * 4, x * inverse, mask=real)
    tl.store(ends + e * 4 + 1, y * inverse, mask=real)
    tl.store(ends + e * 4 + 2, z * inverse, mask=real)
    tl.store(ends + e * 4 + 3, inverse, mask=real)
