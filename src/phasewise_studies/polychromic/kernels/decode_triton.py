"""The kernels of one decoded token, one node of a CUDA graph each: five a layer.

    embed -> (qkv -> attention -> out -> gate_up -> down) x layers -> logits -> sample (sampler_triton.py)

Every kernel may start while the one before it still runs (programmatic dependent launch, PDL): it first asks for its weights,
which nobody writes, and only then waits. The index of the token that is being made lies on the device, `at`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise_studies.polychromic.kernels.decode_tiles import (
    add_tile,
    attention_tile,
    gate_up_tile,
    logits_tile,
    qkv_tile,
)
from phasewise_studies.polychromic.kernels.launching import fetch_ahead, follow


@triton.jit
def embed_kernel(
    x, tokens, embedding, at, counters, rows, new, count,
    D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, COUNTERS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """x = embedding of the last token of every row; the index goes one further, and the counters of this token to 0. One program."""
    follow(PDL)
    now = tl.load(at)
    r = tl.arange(0, ROWS)
    token = tl.load(tokens + r * new + now, mask=r < rows, other=0)
    for first in range(0, D, BLOCK):
        i = first + tl.arange(0, BLOCK)
        inside = (r < rows)[:, None] & (i < D)[None, :]
        values = tl.load(embedding + token[:, None] * D + i[None, :], mask=inside, other=0.0)
        tl.store(x + r[:, None] * D + i[None, :], values.to(tl.float32), mask=inside)
    n = tl.arange(0, COUNTERS)
    tl.store(counters + n, tl.zeros((COUNTERS,), tl.int32), mask=n < count)
    # all threads have read the index before one of them changes it
    tl.debug_barrier()
    tl.store(at, now + 1)


@triton.jit
def qkv_kernel(
    q, own_k, own_v, x, gain, w, cosines, sines, lengths, at, rows, new, epsilon,
    D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, REPLIES: tl.constexpr,
    ROWS: tl.constexpr, PAIRS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    NORMED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Queries, and keys and values into the caches, of one layer: (H + 2 G) E / (2 PAIRS) programs."""
    task = tl.program_id(0)
    per_head: tl.constexpr = E // (2 * PAIRS)
    c = (task // per_head) * E + (task % per_head) * PAIRS
    fetch_ahead(w + c * D, D, PAIRS, PDL)
    fetch_ahead(w + (c + E // 2) * D, D, PAIRS, PDL)
    follow(PDL)
    now = tl.load(at).to(tl.int32) - 1
    qkv_tile(
        task, q, own_k, own_v, x, gain, w, cosines, sines, lengths, now, rows, new, epsilon,
        D, H, G, E, REPLIES, ROWS, PAIRS, SPLIT, BLOCK, PRECISION, NORMED,
    )  # fmt: skip


@triton.jit
def attention_kernel(
    attended, q, prompt_k, prompt_v, own_k, own_v, gain_q, gain_k, cosines, sines, lengths, at, length, new, scale, epsilon,
    H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, REPLIES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr, NORMED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """R G programs, one a reply and key head."""
    follow(PDL)
    now = tl.load(at).to(tl.int32) - 1
    attention_tile(
        tl.program_id(0), attended, q, prompt_k, prompt_v, own_k, own_v, gain_q, gain_k, cosines, sines, lengths, now, length, new,
        scale, epsilon, H, G, E, REPLIES, QUERIES, KEYS, PRECISION, NORMED,
    )  # fmt: skip


@triton.jit
def add_kernel(
    x, inner, w, rows,
    D: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """x += inner W^T: D / COLUMNS programs."""
    task = tl.program_id(0)
    fetch_ahead(w + task * COLUMNS * K, K, COLUMNS, PDL)
    follow(PDL)
    add_tile(task, x, inner, w, rows, D, K, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION)


@triton.jit
def gate_up_kernel(
    inner, x, gain, w, rows, epsilon,
    D: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """inner = silu(gate) * up: F / COLUMNS programs."""
    task = tl.program_id(0)
    fetch_ahead(w + task * COLUMNS * D, D, COLUMNS, PDL)
    fetch_ahead(w + (task * COLUMNS + F) * D, D, COLUMNS, PDL)
    follow(PDL)
    gate_up_tile(task, inner, x, gain, w, rows, epsilon, D, F, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION)


@triton.jit
def logits_kernel(
    logits, x, gain, w, rows, epsilon, vocabulary,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Float32 logits (R, V): ceil(V / COLUMNS) programs."""
    follow(PDL)
    logits_tile(
        tl.program_id(0), logits, x, gain, w, rows, epsilon, vocabulary, D, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION
    )
