"""The rotary embedding of all heads of a token in one program, and its way back: a turn by the opposite angle.

    low' = low cos - high sin,   high' = high cos + low sin   for the pairs (i, i + E/2) of each query and key; values are copied

With a `HeadNorm`, each query and key x is normed before it is turned, and the way back ends with
dL/dx = r (g dn - x r^2 mean(g dn x)), where r = 1 / sqrt(mean(x^2) + eps). Gains are frozen and have no gradient.

The plain forms, beside the kernel, answer on other devices and in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import has_half_kernel
from phasewise_studies.polychromic.kernels.norm_triton import choose_warps
from phasewise_studies.polychromic.model.llama import rms_norm
from phasewise_studies.polychromic.model.rotary import rotate


@dataclass(frozen=True)
class HeadNorm:
    """RMSNorm of each query and key: gains (E,), and what is added to the mean square."""

    gain_q: Tensor
    gain_k: Tensor
    epsilon: float


@triton.jit
def turn_kernel(
    out, q, k, v, cosines, sines, before, gain_q, gain_k,
    out_stride, q_row, q_token, q_head, k_row, k_token, k_head, v_row, v_token, v_head, before_stride, length, epsilon,
    H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, HEADS: tl.constexpr, PAIRS: tl.constexpr,
    NORMED: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """Token `length` row + t of `out` (tokens, (H + 2 G) E) from q, k and v with strides of their own."""
    token = tl.program_id(0).to(tl.int64)
    row, t = token // length, token % length
    # a tile is (HEADS, PAIRS): the heads of q, k and v below each other, and the rotary pairs of each
    head, i = tl.arange(0, HEADS)[:, None], tl.arange(0, PAIRS)[None, :]
    pair = i < E // 2
    is_q, is_k, is_v = head < H, (head >= H) & (head < H + G), (head >= H + G) & (head < H + 2 * G)
    inside = (head < H + 2 * G) & pair
    q += row * q_row + t * q_token + head * q_head + i
    k += row * k_row + t * k_token + (head - H) * k_head + i
    v += row * v_row + t * v_token + (head - H - G) * v_head + i
    # each lane has one source, the others give 0
    low = tl.load(q, mask=is_q & pair, other=0.0).to(tl.float32)
    low += tl.load(k, mask=is_k & pair, other=0.0).to(tl.float32)
    low += tl.load(v, mask=is_v & pair, other=0.0).to(tl.float32)
    high = tl.load(q + E // 2, mask=is_q & pair, other=0.0).to(tl.float32)
    high += tl.load(k + E // 2, mask=is_k & pair, other=0.0).to(tl.float32)
    high += tl.load(v + E // 2, mask=is_v & pair, other=0.0).to(tl.float32)
    if NORMED:
        x_low, x_high = low, high
        if BACK:
            before += token * before_stride + head * E + i
            x_low = tl.load(before, mask=inside, other=0.0).to(tl.float32)
            x_high = tl.load(before + E // 2, mask=inside, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(x_low * x_low + x_high * x_high, axis=1) / E + epsilon)[:, None]
        # one gain for all heads of a kind
        at = i + 0 * head
        g_low = tl.load(gain_q + at, mask=is_q & pair, other=0.0).to(tl.float32)
        g_low += tl.load(gain_k + at, mask=is_k & pair, other=0.0).to(tl.float32)
        g_high = tl.load(gain_q + at + E // 2, mask=is_q & pair, other=0.0).to(tl.float32)
        g_high += tl.load(gain_k + at + E // 2, mask=is_k & pair, other=0.0).to(tl.float32)
        if not BACK:
            # values are not normed
            low, high = tl.where(is_v, low, g_low * low * r), tl.where(is_v, high, g_high * high * r)
    cosine = tl.load(cosines + token * (E // 2) + i, mask=pair, other=1.0)
    sine = tl.load(sines + token * (E // 2) + i, mask=pair, other=0.0)
    if BACK:
        sine = -sine
    # values are not turned
    cosine, sine = tl.where(is_v, 1.0, cosine), tl.where(is_v, 0.0, sine)
    turned_low, turned_high = low * cosine - high * sine, high * cosine + low * sine
    if NORMED and BACK:
        grad_low, grad_high = g_low * turned_low, g_high * turned_high
        mean = (tl.sum(grad_low * x_low + grad_high * x_high, axis=1) / E)[:, None] * r * r
        turned_low = tl.where(is_v, turned_low, r * (grad_low - x_low * mean))
        turned_high = tl.where(is_v, turned_high, r * (grad_high - x_high * mean))
    into = out + token * out_stride + head * E + i
    tl.store(into, turned_low.to(out.dtype.element_ty), mask=inside)
    tl.store(into + E // 2, turned_high.to(out.dtype.element_ty), mask=inside)


def turn(out: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, norm: HeadNorm | None = None) -> None:
    """q (B, S, H, E), k and v (B, S, G, E) turned by the angles of cos and sin (B S, E/2), into `out` (B S, (H + 2 G) E)."""
    if has_half_kernel(out.device, out.dtype):
        _launch(out, q, k, v, cos, sin, norm, None, back=False)
    else:
        plain_turn(out, q, k, v, cos, sin, norm)


def turn_back(
    out: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, cos: Tensor, sin: Tensor,
    norm: HeadNorm | None = None, before: Tensor | None = None,
) -> None:  # fmt: skip
    """Gradients of what `turn` gave -> those of what it took, into `out` (B S, (H + 2 G) E); `before`, of that shape, is what a
    norm took."""
    if has_half_kernel(out.device, out.dtype):
        _launch(out, dq, dk, dv, cos, sin, norm, before, back=True)
    else:
        plain_turn_back(out, dq, dk, dv, cos, sin, norm, before)


def _launch(
    out: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor,
    norm: HeadNorm | None, before: Tensor | None, *, back: bool,
) -> None:  # fmt: skip
    q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
    assert cos.is_contiguous() and sin.is_contiguous() and out.stride(1) == 1, "one row of angles a token"
    batch, length, heads, head = q.shape
    groups = k.shape[2]
    # gains and what was normed are not read without a norm
    source = out if before is None else before
    gain_q, gain_k, epsilon = (cos, cos, 0.0) if norm is None else (norm.gain_q, norm.gain_k, norm.epsilon)
    assert source.stride(1) == gain_q.stride(0) == gain_k.stride(0) == 1 or norm is None, "features lie side by side"
    rows, pairs = triton.next_power_of_2(heads + 2 * groups), triton.next_power_of_2(head // 2)
    turn_kernel[(batch * length,)](
        out, q, k, v, cos, sin, source, gain_q, gain_k,
        out.stride(0), *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], source.stride(0), length, epsilon,
        H=heads, G=groups, E=head, HEADS=rows, PAIRS=pairs,
        NORMED=norm is not None, BACK=back, num_warps=max(2, choose_warps(rows * pairs)),
    )  # fmt: skip


def plain_turn(
    out: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, norm: HeadNorm | None = None
) -> None:
    """`turn` in PyTorch."""
    cos, sin = (angles.view(*q.shape[:2], -1) for angles in (cos, sin))
    if norm is not None:
        q, k = rms_norm(q, norm.gain_q, norm.epsilon), rms_norm(k, norm.gain_k, norm.epsilon)
    parts = (rotate(q, cos, sin), rotate(k, cos, sin), v)
    out.copy_(torch.cat([part.reshape(len(out), -1) for part in parts], dim=1))


def plain_turn_back(
    out: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, cos: Tensor, sin: Tensor,
    norm: HeadNorm | None = None, before: Tensor | None = None,
) -> None:  # fmt: skip
    """`turn_back` in PyTorch."""
    cos, sin = (angles.view(*dq.shape[:2], -1) for angles in (cos, sin))
    dq, dk = rotate(dq, cos, -sin), rotate(dk, cos, -sin)
    if norm is not None:
        assert before is not None, "what was normed"
        q, k, _ = before.view(*dq.shape[:2], -1, dq.shape[-1]).split((dq.shape[2], dk.shape[2], dv.shape[2]), dim=2)
        dq, dk = _norm_back(dq, q, norm.gain_q, norm.epsilon), _norm_back(dk, k, norm.gain_k, norm.epsilon)
    out.copy_(torch.cat([part.reshape(len(out), -1) for part in (dq, dk, dv)], dim=1))


def _norm_back(dn: Tensor, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    r = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    grad = gain.to(wide.dtype) * dn.to(wide.dtype)
    return r * (grad - wide * r.square() * (grad * wide).mean(-1, keepdim=True))
