"""Shoot, couple and the closed form, each in one Triton kernel with its state in registers.

A program owns one wavelength and BLOCK transitions: the row of Gamma (or of sqrt(g)) lies in shared memory, and nothing but
start, stop, A(0) and the results crosses device memory. Speeds are in units of a step, u = v/n: RK4 of

    c' = u, u' = -Gamma(c) u^2      is      c += u + (a1 + a2 + a3)/6,  u += (a1 + 2 a2 + 2 a3 + a4)/6.

An evaluation of the right-hand side is 14 instructions, one of which is the read of the row.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise_studies.spectral_node.closed import NEAR as NEAR_PAIR
from phasewise_studies.spectral_node.rows import look_up, open_row, power_of_two, reciprocal

NEAR = tl.constexpr(NEAR_PAIR)


@triton.jit
def _step(row, c, u, count, ROW: tl.constexpr, PTX: tl.constexpr):
    """One RK4 step of (c, u); the row holds -Gamma."""
    a1 = look_up(row, c, count, -1.0, ROW, PTX) * (u * u)
    u2 = u + 0.5 * a1
    a2 = look_up(row, c + 0.5 * u, count, -1.0, ROW, PTX) * (u2 * u2)
    u3 = u + 0.5 * a2
    a3 = look_up(row, c + 0.5 * u2, count, -1.0, ROW, PTX) * (u3 * u3)
    u4 = u + a3
    a4 = look_up(row, c + u3, count, -1.0, ROW, PTX) * (u4 * u4)
    middle = a2 + a3
    return c + (u + (a1 + middle) * (1.0 / 6)), u + (a1 + (middle + middle) + a4) * (1.0 / 6)


@triton.jit
def _shoot(row, start, stop, count, STEPS: tl.constexpr, NEWTON: tl.constexpr, ROW: tl.constexpr, PTX: tl.constexpr):
    """u0 = v0/n after NEWTON iterations, and c(1) of the last integration.

    A geodesic is the same curve at any speed, so dc(1)/dv0 = v(1)/v0: Newton's slope costs one reciprocal.
    """
    u0 = (stop - start) * (1.0 / STEPS)
    end = start
    for _ in range(NEWTON):
        c, u = start, u0
        for _ in range(STEPS):
            c, u = _step(row, c, u, count, ROW, PTX)
        still = u == 0.0
        slope = reciprocal(tl.where(still, 1.0, u), PTX) * u0
        u0 -= (c - stop) * (1.0 / STEPS) * tl.where(still, 0.0, slope)
        end = c
    return u0, end


@triton.jit
def _load_flow(bias, by_c, by_v, by_a, out, HIDDEN: tl.constexpr):
    """The folded flow as five tuples of scalars; pre-activations are in units of ln 2 / 2, see kernels.scale_flow."""
    biases, cs, vs, activities, outs = (), (), (), (), ()
    for i in tl.static_range(HIDDEN):
        biases += (tl.load(bias + i),)
        cs += (tl.load(by_c + i),)
        vs += (tl.load(by_v + i),)
        activities += (tl.load(by_a + i),)
        outs += (tl.load(out + i),)
    return biases, cs, vs, activities, outs


@triton.jit
def _rate(flow, shift, c, v, a, HIDDEN: tl.constexpr, PTX: tl.constexpr):
    """f = shift + sum_i out_i/(1 + 2^z_i): tanh z = 1 - 2/(1 + e^2z), its 1 and its -2 folded into shift and out.

    Four fractions share one reciprocal: 1.25 special-function instructions a unit. z is held below 30 so that the product
    of four denominators stays in float32; tanh is 1 there to the last bit.
    """
    biases, cs, vs, activities, outs = flow
    total = shift
    for i in tl.static_range(0, HIDDEN, 4):
        d = ()
        for k in tl.static_range(4):
            z = biases[i + k] + cs[i + k] * c + vs[i + k] * v + activities[i + k] * a
            d += (1.0 + power_of_two(tl.minimum(z, 30.0), PTX),)
        left, right = d[0] * d[1], d[2] * d[3]
        over_left = outs[i] * d[1] + outs[i + 1] * d[0]
        over_right = outs[i + 2] * d[3] + outs[i + 3] * d[2]
        total += (over_left * right + over_right * left) * reciprocal(left * right, PTX)
    return total


@triton.jit
def _absorb(flow, shift, node, middle, end, a, HIDDEN: tl.constexpr, PTX: tl.constexpr):
    """One RK4 step of A over three nodes (c, v, h dt) of its path."""
    k1 = node[2] * _rate(flow, shift, node[0], node[1], a, HIDDEN, PTX)
    k2 = middle[2] * _rate(flow, shift, middle[0], middle[1], a + 0.5 * k1, HIDDEN, PTX)
    k3 = middle[2] * _rate(flow, shift, middle[0], middle[1], a + 0.5 * k2, HIDDEN, PTX)
    k4 = end[2] * _rate(flow, shift, end[0], end[1], a + k3, HIDDEN, PTX)
    return a + (k1 + 2.0 * (k2 + k3) + k4) * (1.0 / 6)


@triton.jit
def shoot_forward_kernel(
    v0_out, end_out, start, stop, gamma, pairs, count,
    STEPS: tl.constexpr, NEWTON: tl.constexpr, ROW: tl.constexpr, BLOCK: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """v0 and c(1), (W, P), of every transition (P,) at every wavelength; gamma is (W, count)."""
    wavelength = tl.program_id(1).to(tl.int64)
    row = open_row(gamma + wavelength * count, count, -1.0, ROW, PTX)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    begin, goal = tl.load(start + pair, mask=inside, other=0.0), tl.load(stop + pair, mask=inside, other=0.0)
    u0, end = _shoot(row, begin, goal, count, STEPS, NEWTON, ROW, PTX)
    tl.store(v0_out + wavelength * pairs + pair, u0 * STEPS, mask=inside)
    tl.store(end_out + wavelength * pairs + pair, end, mask=inside)


@triton.jit
def couple_forward_kernel(
    v0_out, a_out, start, stop, a_in, gamma, bias, by_c, by_v, by_a, out, shift, pairs, count,
    STEPS: tl.constexpr, NEWTON: tl.constexpr, HIDDEN: tl.constexpr, ROW: tl.constexpr, BLOCK: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """v0 and A(1), (W, P): shoot, then one pass of [c, v, A] in which A takes one step for two of (c, v).

    RK4 of A over two steps of the path needs (c, v) at its two ends and in its middle: the path's own nodes.
    """
    wavelength = tl.program_id(1).to(tl.int64)
    row = open_row(gamma + wavelength * count, count, -1.0, ROW, PTX)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    begin, goal = tl.load(start + pair, mask=inside, other=0.0), tl.load(stop + pair, mask=inside, other=0.0)
    u0, _ = _shoot(row, begin, goal, count, STEPS, NEWTON, ROW, PTX)
    flow = _load_flow(bias + wavelength * HIDDEN, by_c, by_v, by_a, out, HIDDEN)
    base = tl.load(shift)
    a = tl.load(a_in + wavelength * pairs + pair, mask=inside, other=0.0)
    c, u = begin, u0
    h = 2.0 / STEPS
    for _ in range(STEPS // 2):
        c1, u1 = _step(row, c, u, count, ROW, PTX)
        c2, u2 = _step(row, c1, u1, count, ROW, PTX)
        a = _absorb(flow, base, (c, u * STEPS, h), (c1, u1 * STEPS, h), (c2, u2 * STEPS, h), a, HIDDEN, PTX)
        c, u = c2, u2
    tl.store(v0_out + wavelength * pairs + pair, u0 * STEPS, mask=inside)
    tl.store(a_out + wavelength * pairs + pair, a, mask=inside)


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
    flow = _load_flow(bias + wavelength * HIDDEN, by_c, by_v, by_a, out, HIDDEN)
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
        a = _absorb(flow, base, node, middle, end, a, HIDDEN, PTX)
        node = end
    tl.store(v0_out + wavelength * pairs + pair, v0, mask=inside)
    tl.store(a_out + wavelength * pairs + pair, a, mask=inside)
