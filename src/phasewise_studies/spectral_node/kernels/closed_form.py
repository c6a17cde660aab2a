"""The closed form, and the closed form with the coupled pass, each in one Triton kernel with its state in registers.

A program owns one wavelength and BLOCK transitions, and every tensor has one axis: those transitions. In the coupled pass the
row of sqrt(g) lies in shared memory, and nothing but start, stop, A(0), the row of s and the results crosses device memory.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import reciprocal
from phasewise_studies.spectral_node.closed_form import NEAR as NEAR_PAIR
from phasewise_studies.spectral_node.kernels.flow_rate import load_flow, step_absorbance
from phasewise_studies.spectral_node.kernels.row_lookup import look_up, open_row

NEAR = tl.constexpr(NEAR_PAIR)


@triton.jit
def _arc(arc, speed, c, count):
    """s(c): the cubic through values and slopes at both ends of a cell, read from device memory."""
    position = tl.minimum(tl.maximum(c * 0.5 + 0.5, 0.0), 1.0) * (count - 1).to(tl.float32)
    left = tl.minimum(position.to(tl.int32), count - 2)
    t = position - left.to(tl.float32)
    width = 2.0 / (count - 1).to(tl.float32)
    low = tl.load(arc + left)
    rise = tl.load(arc + left + 1) - low
    first, last = width * tl.load(speed + left), width * tl.load(speed + left + 1)
    return low + t * (first + t * (3.0 * rise - 2.0 * first - last + t * (first + last - 2.0 * rise)))


@triton.jit
def _read(table, part, count):
    """Linear interpolation at a part of the row's length, read from device memory."""
    position = tl.minimum(tl.maximum(part, 0.0), 1.0) * (count - 1).to(tl.float32)
    left = tl.minimum(position.to(tl.int32), count - 2)
    low = tl.load(table + left)
    return low + (position - left.to(tl.float32)) * (tl.load(table + left + 1) - low)


@triton.jit
def closed_solve_kernel(
    v0_out, end_out, start, stop, speed, arc, inverse, pairs, count, BLOCK: tl.constexpr,
):  # fmt: skip
    """v0 = D/sqrt(g(start)) and c(1) = s^-1(s(start) + D), (W, P)."""
    wavelength = tl.program_id(1).to(tl.int64)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    begin, goal = tl.load(start + pair, mask=inside, other=0.0), tl.load(stop + pair, mask=inside, other=0.0)
    at = wavelength * count
    first = _arc(arc + at, speed + at, begin, count)
    distance = _arc(arc + at, speed + at, goal, count) - first
    end = _read(inverse + at, (first + distance) / tl.load(arc + at + count - 1), count)
    tl.store(v0_out + wavelength * pairs + pair, distance / _read(speed + at, begin * 0.5 + 0.5, count), mask=inside)
    tl.store(end_out + wavelength * pairs + pair, end, mask=inside)


@triton.jit
def closed_couple_kernel(
    v0_out, a_out, start, stop, a_in, speed, arc, bias, by_c, by_v, by_a, out, shift, pairs, count,
    STEPS: tl.constexpr, HIDDEN: tl.constexpr, ROW: tl.constexpr, BLOCK: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """v0 and A(1), (W, P): A over concentration, dA/dc = f(c, v, A)/v with v = D/sqrt(g(c))."""
    wavelength = tl.program_id(1).to(tl.int64)
    at = wavelength * count
    row = open_row(speed + at, count, 1.0, ROW, PTX)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    begin, goal = tl.load(start + pair, mask=inside, other=0.0), tl.load(stop + pair, mask=inside, other=0.0)
    flow = load_flow(bias + wavelength * HIDDEN, by_c, by_v, by_a, out, HIDDEN)
    base = tl.load(shift)
    a = tl.load(a_in + wavelength * pairs + pair, mask=inside, other=0.0)
    w = look_up(row, begin, count, 1.0, ROW, PTX)
    both = w + look_up(row, goal, count, 1.0, ROW, PTX)
    mean = (both + 4.0 * look_up(row, 0.5 * (begin + goal), count, 1.0, ROW, PTX)) * (1.0 / 6)
    way = goal - begin
    far = _arc(arc + at, speed + at, goal, count) - _arc(arc + at, speed + at, begin, count)
    near = (tl.abs(way) < NEAR) | (far == 0.0)
    distance = tl.where(near, way * mean, far)
    # h dt = h w dc/ds
    ratio = tl.where(near, reciprocal(mean, PTX), way / tl.where(near, 1.0, far)) * (1.0 / STEPS)
    way *= 0.5 / STEPS
    v0 = distance * reciprocal(w, PTX)
    node = (begin, v0, ratio * w)
    for k in range(STEPS):
        c = begin + way * (2 * k + 1)
        w = look_up(row, c, count, 1.0, ROW, PTX)
        middle = (c, distance * reciprocal(w, PTX), ratio * w)
        c = begin + way * (2 * k + 2)
        w = look_up(row, c, count, 1.0, ROW, PTX)
        end = (c, distance * reciprocal(w, PTX), ratio * w)
        a = step_absorbance(flow, base, node, middle, end, a, HIDDEN, PTX)
        node = end
    tl.store(v0_out + wavelength * pairs + pair, v0, mask=inside)
    tl.store(a_out + wavelength * pairs + pair, a, mask=inside)
