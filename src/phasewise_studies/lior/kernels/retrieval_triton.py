"""Triton kernels of one step's retrieval. A row is masked by a score of -inf, never by a large cost.

Axes of the tiles: tokens before rows before columns (the numbers of a state); splits are blocks of rows.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def retrieve_split_kernel(
    partial, peaks, sums, query, coords, states, valid, metric, curvature, count, batch, bank, width, beta, eps,
    N: tl.constexpr, TOKENS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALF: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """cost, exponentials and mix of ROWS rows: partial (splits, B, d), peaks and sums (splits, B)."""
    split = tl.program_id(0)
    rows = split * ROWS + tl.arange(0, ROWS)
    tokens = tl.arange(0, TOKENS)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    row_there = rows < tl.minimum(tl.load(count), bank)
    token_there = tokens < batch
    r = tl.load(curvature)
    # sum_i g_i (C_ji - q_bi)^2, the differences taken directly: square, score and e are (tokens, rows)
    square = tl.zeros((TOKENS, ROWS), tl.float32)
    for i in tl.static_range(N):
        q = tl.load(query + tokens * N + i, mask=token_there, other=0.0)
        c = tl.load(coords + rows * N + i, mask=row_there, other=0.0)
        d = c[None, :] - q[:, None]
        square += tl.load(metric + i) * d * d
    usable = row_there & (tl.load(valid + rows, mask=row_there, other=0) != 0)
    score = tl.where(usable[None, :], -beta * r * tl.sqrt(square + eps), float("-inf"))
    peak = tl.max(score, 1)
    # a block without a valid row has no peak
    e = tl.exp(score - tl.where(peak == float("-inf"), 0.0, peak)[:, None])
    inside = columns < width
    # s: (rows, columns), mixed: (tokens, columns)
    s = tl.load(
        states + rows[:, None].to(tl.int64) * width + columns[None, :],
        mask=row_there[:, None] & inside[None, :],
        other=0.0,
    )
    if HALF == 1:
        mixed = tl.dot(e.to(tl.float16), s.to(tl.float16))
    elif HALF == 2:
        mixed = tl.dot(e.to(tl.bfloat16), s.to(tl.bfloat16))
    else:
        mixed = tl.dot(e, s, input_precision=PRECISION)
    at = (split * batch + tokens[:, None]).to(tl.int64) * width + columns[None, :]
    tl.store(partial + at, mixed, mask=token_there[:, None] & inside[None, :])
    if tl.program_id(1) == 0:
        tl.store(peaks + split * batch + tokens, peak, mask=token_there)
        tl.store(sums + split * batch + tokens, tl.sum(e, 1), mask=token_there)


@triton.jit
def retrieve_combine_kernel(
    y, partial, peaks, sums, count, splits, batch, width,
    ROWS: tl.constexpr, SPLITS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """y = sum_s exp(m_s - m) partial_s / sum_s exp(m_s - m) l_s for one token; blocks behind `count` are not read."""
    token = tl.program_id(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    split = tl.arange(0, SPLITS)
    there = (split < splits) & (split * ROWS < tl.load(count))
    peak = tl.load(peaks + split * batch + token, mask=there, other=float("-inf"))
    share = tl.exp(peak - tl.max(peak, 0))
    total = tl.sum(share * tl.load(sums + split * batch + token, mask=there, other=0.0), 0)
    # mixed: (splits, columns), summed over splits
    at = (split[:, None] * batch + token).to(tl.int64) * width + columns[None, :]
    mixed = tl.load(partial + at, mask=there[:, None] & (columns < width)[None, :], other=0.0)
    tl.store(y + token * width + columns, tl.sum(share[:, None] * mixed, 0) / total, mask=columns < width)
