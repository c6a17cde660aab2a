"""Shooting, and shooting with the coupled pass, each in one Triton kernel with its state in registers.

A program owns one wavelength and BLOCK transitions, and every tensor has one axis: those transitions. The row of Gamma lies in
shared memory, and nothing but start, stop, A(0) and the results crosses device memory. Speeds are in units of a step, u = v/n:
RK4 of

    c' = u, u' = -Gamma(c) u^2      is      c += u + (a1 + a2 + a3)/6,  u += (a1 + 2 a2 + 2 a3 + a4)/6.

An evaluation of the right-hand side is 14 instructions, one of which is the read of the row.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import reciprocal
from phasewise_studies.spectral_node.kernels.flow_rate import load_flow, step_absorbance
from phasewise_studies.spectral_node.kernels.row_lookup import look_up, open_row


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
    flow = load_flow(bias + wavelength * HIDDEN, by_c, by_v, by_a, out, HIDDEN)
    base = tl.load(shift)
    a = tl.load(a_in + wavelength * pairs + pair, mask=inside, other=0.0)
    c, u = begin, u0
    h = 2.0 / STEPS
    for _ in range(STEPS // 2):
        c1, u1 = _step(row, c, u, count, ROW, PTX)
        c2, u2 = _step(row, c1, u1, count, ROW, PTX)
        a = step_absorbance(flow, base, (c, u * STEPS, h), (c1, u1 * STEPS, h), (c2, u2 * STEPS, h), a, HIDDEN, PTX)
        c, u = c2, u2
    tl.store(v0_out + wavelength * pairs + pair, u0 * STEPS, mask=inside)
    tl.store(a_out + wavelength * pairs + pair, a, mask=inside)
