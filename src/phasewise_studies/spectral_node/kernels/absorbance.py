"""The absorbance along all transitions, and its whole gradient, in one Triton kernel.

A program owns one wavelength; its rows are the transitions, its columns the 16 hidden units. Forward keeps A at the end of
each step; backward goes through the steps again, from the last to the first. With h = 1/n, q_j = dt/dtau and lambda the
gradient with respect to A after a step:

    k_s = q_s f(c_s, v_s, a_s),  a_1 = A, a_2 = A + h/2 k_1, a_3 = A + h/2 k_2, a_4 = A + h k_3
    d k_4 = h/6 lambda,  d k_3 = h/3 lambda + h d a_4,  d k_2 = h/3 lambda + h/2 d a_3,  d k_1 = h/6 lambda + h/2 d a_2
    d a_s = d k_s q_s f_a,  lambda before the step = lambda + sum_s d a_s

Of the path only q = (way/D) w and v = D/w depend on the metric, through w = sqrt(g) on the path and D, its integral.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.fast_math import power_of_two, reciprocal
from phasewise.kit.kernels import is_interpreted
from phasewise_studies.spectral_node.flow import HIDDEN, Flow


@triton.jit
def _hidden(bias, by_c, by_v, by_a, c, v, a, PTX: tl.constexpr):
    """tanh of the first layer: axes [transition, hidden unit]; bias and weights [hidden unit], c, v and a [transition]."""
    z = bias[None, :] + by_c[None, :] * c[:, None] + by_v[None, :] * v[:, None] + by_a[None, :] * a[:, None]
    # 2 log2(e)
    return 1.0 - 2.0 * reciprocal(1.0 + power_of_two(2.8853900817779268 * z, PTX), PTX)


@triton.jit
def _slope(weights, q, c, v, a, PTX: tl.constexpr):
    """k = q f(c, v, a)."""
    bias, by_c, by_v, by_a, out, shift = weights
    return q * (tl.sum(_hidden(bias, by_c, by_v, by_a, c, v, a, PTX) * out[None, :], axis=1) + shift)


@triton.jit
def _pull(weights, sums, q, c, v, a, dk, PTX: tl.constexpr):
    """Gradients of one stage from that of its k: (d a, d q, d v) and the sums for the weights, stage added."""
    bias, by_c, by_v, by_a, out, shift = weights
    s_bias, s_c, s_v, s_a, s_out, s_shift = sums
    hidden = _hidden(bias, by_c, by_v, by_a, c, v, a, PTX)
    f = tl.sum(hidden * out[None, :], axis=1) + shift
    df = dk * q
    # d z_i = df out_i (1 - tanh^2): axes [transition, hidden unit]; df, dk, q, c, v and a are [transition]
    dz = (df[:, None] * out[None, :]) * (1.0 - hidden * hidden)
    sums = (
        s_bias + dz, s_c + dz * c[:, None], s_v + dz * v[:, None], s_a + dz * a[:, None],
        s_out + hidden * df[:, None], s_shift + df,
    )  # fmt: skip
    return tl.sum(dz * by_a[None, :], axis=1), dk * f, tl.sum(dz * by_v[None, :], axis=1), sums


@triton.jit
def absorb_kernel(
    end_out, d_speeds, d_distance, d_bias, d_weights, saved, speeds, distance, path, start, goal,
    bias, by_c, by_v, by_a, out, shift, rows, wavelengths,
    STEPS: tl.constexpr, ROWS: tl.constexpr, HIDDEN: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """A(1) and the gradient of the mean of (A(1) - goal)^2.

    speeds (W, J, R), distance, start, goal and end_out (W, R), path (J, R); d_weights (W, 4 HIDDEN + 1): by_c, by_v, by_a, out,
    shift; saved (W, STEPS, R) is room for A.
    """
    this = tl.program_id(0).to(tl.int64)
    # axis of transitions, axis of hidden units
    row = tl.arange(0, ROWS)
    unit = tl.arange(0, HIDDEN)
    inside = row < rows
    far = tl.load(distance + this * rows + row, mask=inside, other=1.0)
    first, last = (
        tl.load(path + row, mask=inside, other=0.0),
        tl.load(path + 2 * STEPS * rows + row, mask=inside, other=1.0),
    )
    ratio = (last - first) / far
    weights = (
        tl.load(bias + this * HIDDEN + unit), tl.load(by_c + unit), tl.load(by_v + unit), tl.load(by_a + unit),
        tl.load(out + unit), tl.load(shift),
    )  # fmt: skip
    speeds += this * (2 * STEPS + 1) * rows
    saved += this * STEPS * rows
    a = tl.load(start + this * rows + row, mask=inside, other=0.0)
    h = 1.0 / STEPS
    for k in range(STEPS):
        tl.store(saved + k * rows + row, a, mask=inside)
        c1 = tl.load(path + 2 * k * rows + row, mask=inside, other=0.0)
        c2 = tl.load(path + (2 * k + 1) * rows + row, mask=inside, other=0.0)
        c3 = tl.load(path + (2 * k + 2) * rows + row, mask=inside, other=0.0)
        w1 = tl.load(speeds + 2 * k * rows + row, mask=inside, other=1.0)
        w2 = tl.load(speeds + (2 * k + 1) * rows + row, mask=inside, other=1.0)
        w3 = tl.load(speeds + (2 * k + 2) * rows + row, mask=inside, other=1.0)
        k1 = _slope(weights, ratio * w1, c1, far / w1, a, PTX)
        k2 = _slope(weights, ratio * w2, c2, far / w2, a + 0.5 * h * k1, PTX)
        k3 = _slope(weights, ratio * w2, c2, far / w2, a + 0.5 * h * k2, PTX)
        k4 = _slope(weights, ratio * w3, c3, far / w3, a + h * k3, PTX)
        a += h / 6 * (k1 + 2.0 * (k2 + k3) + k4)
    tl.store(end_out + this * rows + row, a, mask=inside)
    gap = a - tl.load(goal + this * rows + row, mask=inside, other=0.0)
    scale = 2.0 / (rows * wavelengths).to(tl.float32)
    slope = tl.where(inside, gap * scale, 0.0)
    # what is stored above may come back to other threads
    tl.debug_barrier()
    # axes [transition, hidden unit]: sums over the transitions are left for the end
    wide = tl.zeros((ROWS, HIDDEN), tl.float32)
    sums = (wide, wide, wide, wide, wide, tl.zeros((ROWS,), tl.float32))
    d_far = tl.zeros((ROWS,), tl.float32)
    # gradients that the step after this one left at their common node
    q_carry, v_carry = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    d_speeds += this * (2 * STEPS + 1) * rows
    for i in range(STEPS):
        k = STEPS - 1 - i
        a = tl.load(saved + k * rows + row, mask=inside, other=0.0)
        c1 = tl.load(path + 2 * k * rows + row, mask=inside, other=0.0)
        c2 = tl.load(path + (2 * k + 1) * rows + row, mask=inside, other=0.0)
        c3 = tl.load(path + (2 * k + 2) * rows + row, mask=inside, other=0.0)
        w1 = tl.load(speeds + 2 * k * rows + row, mask=inside, other=1.0)
        w2 = tl.load(speeds + (2 * k + 1) * rows + row, mask=inside, other=1.0)
        w3 = tl.load(speeds + (2 * k + 2) * rows + row, mask=inside, other=1.0)
        a2 = a + 0.5 * h * _slope(weights, ratio * w1, c1, far / w1, a, PTX)
        a3 = a + 0.5 * h * _slope(weights, ratio * w2, c2, far / w2, a2, PTX)
        a4 = a + h * _slope(weights, ratio * w2, c2, far / w2, a3, PTX)
        da4, dq4, dv4, sums = _pull(weights, sums, ratio * w3, c3, far / w3, a4, h / 6 * slope, PTX)
        da3, dq3, dv3, sums = _pull(weights, sums, ratio * w2, c2, far / w2, a3, h / 3 * slope + h * da4, PTX)
        da2, dq2, dv2, sums = _pull(weights, sums, ratio * w2, c2, far / w2, a2, h / 3 * slope + 0.5 * h * da3, PTX)
        da1, dq1, dv1, sums = _pull(weights, sums, ratio * w1, c1, far / w1, a, h / 6 * slope + 0.5 * h * da2, PTX)
        slope += da1 + da2 + da3 + da4
        # d w = (way/D) d q - D/w^2 d v and d D = d v/w - (way/D) w/D d q, at the node after the step and in its middle
        dq, dv = dq4 + q_carry, dv4 + v_carry
        tl.store(d_speeds + (2 * k + 2) * rows + row, ratio * dq - far / (w3 * w3) * dv, mask=inside)
        d_far += dv / w3 - ratio * w3 / far * dq
        dq, dv = dq2 + dq3, dv2 + dv3
        tl.store(d_speeds + (2 * k + 1) * rows + row, ratio * dq - far / (w2 * w2) * dv, mask=inside)
        d_far += dv / w2 - ratio * w2 / far * dq
        q_carry, v_carry = dq1, dv1
    w1 = tl.load(speeds + row, mask=inside, other=1.0)
    tl.store(d_speeds + row, ratio * q_carry - far / (w1 * w1) * v_carry, mask=inside)
    d_far += v_carry / w1 - ratio * w1 / far * q_carry
    tl.store(d_distance + this * rows + row, d_far, mask=inside)
    tl.store(d_bias + this * HIDDEN + unit, tl.sum(sums[0], axis=0))
    at = d_weights + this * (4 * HIDDEN + 1)
    tl.store(at + unit, tl.sum(sums[1], axis=0))
    tl.store(at + HIDDEN + unit, tl.sum(sums[2], axis=0))
    tl.store(at + 2 * HIDDEN + unit, tl.sum(sums[3], axis=0))
    tl.store(at + 3 * HIDDEN + unit, tl.sum(sums[4], axis=0))
    tl.store(at + 4 * HIDDEN, tl.sum(sums[5], axis=0))


class Absorb(torch.autograd.Function):
    """Mean of (A(1) - goal)^2 and A(1) (W, R); the gradient is made along with the value."""

    @staticmethod
    def forward(ctx, speeds, distance, path, start, goal, bias, by_c, by_v, by_a, out, shift):
        """speeds (W, J, R), distance, start and goal (W, R), path (J, R), and the folded flow, all contiguous float32."""
        wavelengths, nodes, rows = speeds.shape
        end, d_distance = torch.empty((2, wavelengths, rows), dtype=torch.float32, device=speeds.device).unbind(0)
        d_speeds, d_bias = torch.empty_like(speeds), torch.empty_like(bias)
        d_weights = speeds.new_empty((wavelengths, 4 * HIDDEN + 1))
        saved = speeds.new_empty((wavelengths, nodes // 2, rows))
        absorb_kernel[(wavelengths,)](
            end, d_speeds, d_distance, d_bias, d_weights, saved, speeds, distance, path, start, goal,
            bias, by_c, by_v, by_a, out, shift, rows, wavelengths, STEPS=nodes // 2,
            ROWS=max(triton.next_power_of_2(rows), 16), HIDDEN=HIDDEN, PTX=not is_interpreted(), num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(d_speeds, d_distance, d_bias, *d_weights.sum(0).split([HIDDEN] * 4 + [1]))
        ctx.mark_non_differentiable(end)
        return (end - goal).square().mean(), end

    @staticmethod
    def backward(ctx, gradient, _):
        """The stored gradient, times that of the mean."""
        d_speeds, d_distance, d_bias, d_c, d_v, d_a, d_out, d_shift = (gradient * part for part in ctx.saved_tensors)
        return d_speeds, d_distance, None, None, None, d_bias, d_c, d_v, d_a, d_out, d_shift[0]


def absorb(
    speeds: Tensor, distance: Tensor, path: Tensor, start: Tensor, goal: Tensor, flow: Flow
) -> tuple[Tensor, Tensor]:
    """Mean squared error and A(1) (R, W): speeds (W, J, R), distance (W, R), path (J, R), start and goal (R, W)."""
    parts = (part.contiguous() for part in flow)
    error, end = Absorb.apply(
        speeds.contiguous(), distance.contiguous(), path.contiguous(), start.T.contiguous(), goal.T.contiguous(), *parts
    )
    return error, end.T
