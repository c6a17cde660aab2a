"""Gamma on a grid by one Triton kernel: network, exact tangent and the quotient without a detour through memory.

A program takes one wavelength and POINTS concentrations. Value and tangent go through the second layer as two products with
the same weights, on tensor cores in three TF32 parts (`tf32x3`: as accurate as float32 to a few last bits).

Work of a point: 4 H1 H2 + 8 H1 + 12 H2 FLOPs, three times the first term on the tensor cores, and 2 (H1 + H2)
special-function instructions.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import power_of_two, reciprocal

# 2 log2(e): e^2z = 2^(this z)
TWO_LOG2_E = tl.constexpr(2.8853900817779268)


@triton.jit
def _tanh(z, PTX: tl.constexpr):
    """tanh z = 1 - 2/(1 + e^2z), to 1e-7 absolute; e^2z may overflow to infinity, whose reciprocal is 0."""
    return 1.0 - 2.0 * reciprocal(1.0 + power_of_two(z * TWO_LOG2_E, PTX), PTX)


@triton.jit
def christoffel_forward_kernel(
    gamma_out, points, wavelengths, w1, b1, w2, b2, w3, b3, count, floor,
    FIRST: tl.constexpr, SECOND: tl.constexpr, POINTS: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """gamma_out (W, count) at points (count,) for every wavelength; w1 (2, FIRST), w2 (FIRST, SECOND), rest (.,)."""
    wavelength = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    inside = at < count
    c = tl.load(points + at, mask=inside, other=0.0)
    length = tl.load(wavelengths + wavelength)
    z = tl.zeros((POINTS,), tl.float32) + tl.load(b3)
    slope = tl.zeros((POINTS,), tl.float32)
    for n in range(0, SECOND, WIDE):
        # value and tangent before the second tanh: axes [point, unit of the second layer]
        column = n + tl.arange(0, WIDE)
        value = tl.zeros((POINTS, WIDE), tl.float32) + tl.load(b2 + column)[None, :]
        tangent = tl.zeros((POINTS, WIDE), tl.float32)
        for k in range(0, FIRST, DEEP):
            unit = k + tl.arange(0, DEEP)
            by_c = tl.load(w1 + unit)
            rest = length * tl.load(w1 + FIRST + unit) + tl.load(b1 + unit)
            # axes [point, unit of the first layer]
            hidden = _tanh(c[:, None] * by_c[None, :] + rest[None, :], PTX)
            # tanh' = 1 - tanh^2
            moved = (1.0 - hidden * hidden) * by_c[None, :]
            # axes [unit of the first layer, unit of the second layer]
            weights = tl.load(w2 + unit[:, None] * SECOND + column[None, :])
            value = tl.dot(hidden, weights, value, input_precision=PRECISION)
            tangent = tl.dot(moved, weights, tangent, input_precision=PRECISION)
        hidden = _tanh(value, PTX)
        last = tl.load(w3 + column)[None, :]
        z += tl.sum(hidden * last, axis=1)
        slope += tl.sum((1.0 - hidden * hidden) * tangent * last, axis=1)
    # Gamma = g'/(2 g) with g = softplus(z) + floor and g' = sigmoid(z) z'
    size = tl.exp(-tl.abs(z))
    g = tl.maximum(z, 0.0) + tl.log(1.0 + size) + floor
    sigmoid = tl.where(z >= 0, 1.0, size) / (1.0 + size)
    tl.store(gamma_out + wavelength * count + at, 0.5 * sigmoid * slope / g, mask=inside)
