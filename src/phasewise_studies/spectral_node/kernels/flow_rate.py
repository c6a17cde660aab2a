"""The flow f(c, v, A) at one wavelength, with its weights in registers, and the step of A along a path: Triton device functions.

Every tensor has one axis: the transitions of a program.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import power_of_two, reciprocal


@triton.jit
def load_flow(bias, by_c, by_v, by_a, out, HIDDEN: tl.constexpr):
    """The folded flow as five tuples of scalars; pre-activations are in units of ln 2 / 2, see launch_solvers.scale_flow."""
    biases, cs, vs, activities, outs = (), (), (), (), ()
    for i in tl.static_range(HIDDEN):
        biases += (tl.load(bias + i),)
        cs += (tl.load(by_c + i),)
        vs += (tl.load(by_v + i),)
        activities += (tl.load(by_a + i),)
        outs += (tl.load(out + i),)
    return biases, cs, vs, activities, outs


@triton.jit
def evaluate_flow(flow, shift, c, v, a, HIDDEN: tl.constexpr, PTX: tl.constexpr):
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
def step_absorbance(flow, shift, node, middle, end, a, HIDDEN: tl.constexpr, PTX: tl.constexpr):
    """One RK4 step of A over three nodes (c, v, h dt) of its path."""
    k1 = node[2] * evaluate_flow(flow, shift, node[0], node[1], a, HIDDEN, PTX)
    k2 = middle[2] * evaluate_flow(flow, shift, middle[0], middle[1], a + 0.5 * k1, HIDDEN, PTX)
    k3 = middle[2] * evaluate_flow(flow, shift, middle[0], middle[1], a + 0.5 * k2, HIDDEN, PTX)
    k4 = end[2] * evaluate_flow(flow, shift, end[0], end[1], a + k3, HIDDEN, PTX)
    return a + (k1 + 2.0 * (k2 + k3) + k4) * (1.0 / 6)
