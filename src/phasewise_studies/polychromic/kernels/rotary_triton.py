"""The rotary embedding of all heads of a token in one program, and its way back: a turn by the opposite angle.

    low' = low cos - high sin,   high' = high cos + low sin   for the pairs (i, i + E/2) of each query and key; values are copied

The plain form, beside the kernel, answers on other devices and in float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import has_half_kernel
from phasewise_studies.polychromic.model.rotary import rotate


@triton.jit
def turn_kernel(
    out, q, k, v, cosines, sines, out_stride, q_row, q_token, q_head, k_row, k_token, k_head, v_row, v_token, v_head, length,
    sign, H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, HEADS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Token `length` row + t of `out` (tokens, (H + 2 G) E) from q, k and v with strides of their own."""
    token = tl.program_id(0).to(tl.int64)
    row, t = token // length, token % length
    # a tile is (HEADS, PAIRS): the heads of q, k and v below each other, and the rotary pairs of each
    head, i = tl.arange(0, HEADS)[:, None], tl.arange(0, PAIRS)[None, :]
    pair = i < E // 2
    is_q, is_k, is_v = head < H, (head >= H) & (head < H + G), (head >= H + G) & (head < H + 2 * G)
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
    cosine = tl.load(cosines + token * (E // 2) + i, mask=pair, other=1.0)
    sine = sign * tl.load(sines + token * (E // 2) + i, mask=pair, other=0.0)
    # values are not turned
    cosine, sine = tl.where(is_v, 1.0, cosine), tl.where(is_v, 0.0, sine)
    inside = (head < H + 2 * G) & pair
    into = out + token * out_stride + head * E + i
    tl.store(into, (low * cosine - high * sine).to(out.dtype.element_ty), mask=inside)
    tl.store(into + E // 2, (high * cosine + low * sine).to(out.dtype.element_ty), mask=inside)


def turn(out: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> None:
    """q (B, S, H, E), k and v (B, S, G, E) turned by the angles of cos and sin (B S, E/2), into `out` (B S, (H + 2 G) E)."""
    if not has_half_kernel(out.device, out.dtype):
        plain_turn(out, q, k, v, cos, sin, back=back)
        return
    q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
    assert cos.is_contiguous() and sin.is_contiguous() and out.stride(1) == 1, "one row of angles a token"
    batch, length, heads, head = q.shape
    groups = k.shape[2]
    turn_kernel[(batch * length,)](
        out, q, k, v, cos, sin, out.stride(0), *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], length,
        -1.0 if back else 1.0, H=heads, G=groups, E=head, HEADS=triton.next_power_of_2(heads + 2 * groups),
        PAIRS=triton.next_power_of_2(head // 2), num_warps=2,
    )  # fmt: skip


def plain_turn(out: Tensor, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, *, back: bool = False) -> None:
    """`turn` in PyTorch."""
    shape = (*q.shape[:2], cos.shape[1])
    cos, sin = cos.view(shape), sin.view(shape)
    sin = -sin if back else sin
    parts = (rotate(q, cos, sin), rotate(k, cos, sin), v)
    out.copy_(torch.cat([part.reshape(len(out), -1) for part in parts], dim=1))
