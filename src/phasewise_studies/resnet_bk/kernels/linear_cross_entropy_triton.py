"""The head's Triton kernels. Base 2 throughout: exp2 is one instruction, and 2^(s log2 e) = e^s.

s_tv = (x_t . W_v + b_v) log2 e,   lse_t = log2 sum_v 2^s_tv,   p_tv = 2^(s_tv - lse_t)

Axes of the tiles: t token (`row`), v class of the vocabulary, f feature (`column`). Forward and finish: x_block, weighted and rows are (t, f),
w is (v, f), s and p are (t, v), largest and total are (t). Backward: x_block is (t, f), w and summed are (v, f), s and p are (v, t),
log_sum and target are (t), counted is (v).
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN_2: tl.constexpr = tl.constexpr(0.6931471805599453)


@triton.jit
def head_forward_kernel(
    sums, mixed, x, weight, bias, tokens, vocabulary, span,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, CLASSES: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Of one block of tokens and one part of the vocabulary: largest s, sum of 2^(s - largest), and that sum weighted with W."""
    part = tl.program_id(1)
    row = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, WIDTH)
    valid = row < tokens
    x_block = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=valid[:, None], other=0.0)
    largest = tl.full((TOKENS,), float("-inf"), tl.float32)
    total = tl.zeros((TOKENS,), tl.float32)
    weighted = tl.zeros((TOKENS, WIDTH), tl.float32)
    first = part * span
    for start in range(first, tl.minimum(first + span, vocabulary), CLASSES):
        v = start + tl.arange(0, CLASSES)
        inside = v < vocabulary
        w = tl.load(weight + v[:, None] * WIDTH + column[None, :], mask=inside[:, None], other=0.0)
        b = tl.load(bias + v, mask=inside, other=float("-inf")).to(tl.float32) * LOG2_E
        s = multiply(x_block, tl.trans(w), EXACT) * LOG2_E + b[None, :]
        # each part begins inside the vocabulary, so `larger` is finite from the first tile on
        larger = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - larger[:, None])
        fade = tl.exp2(largest - larger)
        total = total * fade + tl.sum(p, 1)
        weighted = weighted * fade[:, None] + multiply(p.to(w.dtype), w, EXACT)
        largest = larger
    at = part.to(tl.int64) * tokens + row
    tl.store(sums + at, largest, mask=valid)
    tl.store(sums + tl.num_programs(1).to(tl.int64) * tokens + at, total, mask=valid)
    tl.store(mixed + at[:, None] * WIDTH + column[None, :], weighted, mask=valid[:, None])


@triton.jit
def head_finish_kernel(
    losses, lse, grad_x, sums, mixed, x, weight, bias, targets, tokens, splits,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """Put the parts of the vocabulary together: lse, loss = lse ln 2 - logit of the target, sum_v p W_v - W_target."""
    row = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, WIDTH)
    valid = row < tokens
    largest = tl.full((TOKENS,), float("-inf"), tl.float32)
    total = tl.zeros((TOKENS,), tl.float32)
    weighted = tl.zeros((TOKENS, WIDTH), tl.float32)
    for part in range(0, splits):
        at = part * tokens + row
        s = tl.load(sums + at, mask=valid, other=0.0)
        larger = tl.maximum(largest, s)
        fade, here = tl.exp2(largest - larger), tl.exp2(s - larger)
        total = total * fade + here * tl.load(sums + splits * tokens + at, mask=valid, other=1.0)
        rows = tl.load(mixed + at[:, None] * WIDTH + column[None, :], mask=valid[:, None], other=0.0)
        weighted = weighted * fade[:, None] + here[:, None] * rows
        largest = larger
    target = tl.load(targets + row, mask=valid, other=0)
    x_block = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
    w = tl.load(weight + target[:, None] * WIDTH + column[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
    logit = tl.sum(x_block * w, 1) + tl.load(bias + target, mask=valid, other=0.0).to(tl.float32)
    log_sum = largest + tl.log2(total)
    tl.store(losses + row, log_sum * LN_2 - logit, mask=valid)
    tl.store(lse + row, log_sum, mask=valid)
    tl.store(grad_x + row[:, None] * WIDTH + column[None, :], weighted / total[:, None] - w, mask=valid[:, None])


@triton.jit
def head_backward_kernel(
    grad_weight, grad_bias, x, weight, bias, targets, lse, share, tokens, vocabulary,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, CLASSES: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dL/dW_v = share sum_t (p_tv - [target_t = v]) x_t, dL/db_v the same without x: all tokens for one block of classes."""
    v = tl.program_id(0) * CLASSES + tl.arange(0, CLASSES)
    column = tl.arange(0, WIDTH)
    inside = v < vocabulary
    place = v.to(tl.int64)[:, None] * WIDTH + column[None, :]
    w = tl.load(weight + place, mask=inside[:, None], other=0.0)
    b = tl.load(bias + v, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    summed = tl.zeros((CLASSES, WIDTH), tl.float32)
    counted = tl.zeros((CLASSES,), tl.float32)
    for start in range(0, tokens, TOKENS):
        row = start + tl.arange(0, TOKENS)
        valid = row < tokens
        x_block = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=valid[:, None], other=0.0)
        # p = 0 for rows that are not there
        log_sum = tl.load(lse + row, mask=valid, other=float("inf"))
        # half as many instructions to compare as with 64 bits
        target = tl.load(targets + row, mask=valid, other=-1).to(tl.int32)
        s = multiply(w, tl.trans(x_block), EXACT) * LOG2_E + b[:, None]
        p = tl.exp2(s - log_sum[None, :])
        p = tl.where(v[:, None] == target[None, :], p - 1.0, p)
        counted += tl.sum(p, 1)
        summed += multiply(p.to(x_block.dtype), x_block, EXACT)
    factor = tl.load(share)
    tl.store(grad_weight + place, summed * factor, mask=inside[:, None])
    tl.store(grad_bias + v, counted * factor, mask=inside)


@triton.jit
def multiply(left, right, EXACT: tl.constexpr):
    """A matrix product summed in float32; float32 operands are not rounded to tf32."""
    if EXACT:
        return tl.dot(left, right, input_precision="ieee")
    return tl.dot(left, right)
