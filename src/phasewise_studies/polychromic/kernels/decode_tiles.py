"""Pieces of one decoded token in Triton: each computes one tile of a kernel of decode_triton.py.

R rows (replies) of one token each: products of a few rows with a large weight are bound by reading the weight once. The
inner dimension is cut into SPLIT parts, one for each warp, whose sums are added at the end: a chain of tensor-core products
over the whole dimension would take longer than the read. Activations between tiles are read past the first-level cache,
since other multiprocessors wrote them.

Axes of a product: S = SPLIT parts of the inner dimension, K = BLOCK inner features of each, R = ROWS replies, C = COLUMNS output
features; x is (S, R, K), W^T (S, K, C), their product (S, R, C), which is summed over S. Axes of the attention: M = QUERIES heads
that share a key head, T = KEYS positions of a block, E features of a head.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_x(x, gain, r, i, rows, K: tl.constexpr, NORM: tl.constexpr):
    """x_SRK of rows r (ROWS,) at features i (SPLIT, BLOCK): with the gain of its norm, and its squares summed over features."""
    inside = (r < rows)[None, :, None] & (i < K)[:, None, :]
    x_SRK = tl.load(x + r[None, :, None] * K + i[:, None, :], mask=inside, other=0.0, cache_modifier=".cg").to(
        tl.float32
    )
    if NORM:
        squares = tl.sum(x_SRK * x_SRK, axis=2)
        gain_SK = tl.load(gain + i, mask=i < K, other=0.0).to(tl.float32)
        x_SRK = x_SRK * gain_SK[:, None, :]
    else:
        squares = tl.zeros((i.shape[0], r.shape[0]), tl.float32)
    return x_SRK, squares


@triton.jit
def _load_w(w, c, i, K: tl.constexpr):
    """W^T as (SPLIT, BLOCK, COLUMNS) of output features c and inputs i (SPLIT, BLOCK)."""
    return tl.load(w + c[None, None, :] * K + i[:, :, None], mask=(i < K)[:, :, None], other=0.0)


@triton.jit
def _rescale(total, squares, epsilon, K: tl.constexpr, NORM: tl.constexpr):
    """Add the parts; RMSNorm(x) W^T = (x g) W^T / sqrt(mean(x^2) + eps), row by row."""
    y = tl.sum(total, axis=0)
    if NORM:
        y = y * tl.rsqrt(tl.sum(squares, axis=0) / K + epsilon)[:, None]
    return y


@triton.jit
def product(
    x, gain, w, c, rows, epsilon,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr, NORM: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """(ROWS, COLUMNS) of x W^T for output features `c`, float32; with NORM, of RMSNorm(x) W^T."""
    r = tl.arange(0, ROWS)
    total = tl.zeros((SPLIT, ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((SPLIT, ROWS), tl.float32)
    for k in tl.static_range(0, K, SPLIT * BLOCK):
        i = k + tl.arange(0, SPLIT)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        w_SKC = _load_w(w, c, i, K)
        x_SRK, more = _load_x(x, gain, r, i, rows, K, NORM)
        squares += more
        total += tl.dot(x_SRK.to(w_SKC.dtype), w_SKC, input_precision=PRECISION)
    return _rescale(total, squares, epsilon, K, NORM)


@triton.jit
def product_pair(
    x, gain, w, c, other, rows, epsilon,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Two products of the same RMSNorm(x): for output features `c` and for `other`."""
    r = tl.arange(0, ROWS)
    one = tl.zeros((SPLIT, ROWS, COLUMNS), tl.float32)
    two = tl.zeros((SPLIT, ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((SPLIT, ROWS), tl.float32)
    for k in tl.static_range(0, K, SPLIT * BLOCK):
        i = k + tl.arange(0, SPLIT)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        w_one, w_two = _load_w(w, c, i, K), _load_w(w, other, i, K)
        x_SRK, more = _load_x(x, gain, r, i, rows, K, True)
        squares += more
        x_SRK = x_SRK.to(w_one.dtype)
        one += tl.dot(x_SRK, w_one, input_precision=PRECISION)
        two += tl.dot(x_SRK, w_two, input_precision=PRECISION)
    return _rescale(one, squares, epsilon, K, True), _rescale(two, squares, epsilon, K, True)


@triton.jit
def qkv_tile(
    task, q, own_k, own_v, x, gain, w, cosines, sines, lengths, at, rows, new, epsilon,
    D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, REPLIES: tl.constexpr,
    ROWS: tl.constexpr, PAIRS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """PAIRS rotary pairs (i, i + E/2) of one head: norm, product, rotation; queries to `q`, keys and values into the cache.

    Where heads are NORMED, which takes all features of one, the attention norms and turns them.
    """
    per_head: tl.constexpr = E // (2 * PAIRS)
    head = task // per_head
    i = (task % per_head) * PAIRS + tl.arange(0, PAIRS)
    c = head * E + i
    first, second = product_pair(x, gain, w, c, c + E // 2, rows, epsilon, D, ROWS, PAIRS, SPLIT, BLOCK, PRECISION)
    r = tl.arange(0, ROWS)
    inside = (r < rows)[:, None]
    # the new token stands at `at` of its reply, which begins where the prompt ends
    position = tl.load(lengths + r // REPLIES, mask=r < rows, other=1) + at
    angle = position[:, None] * (E // 2) + i[None, :]
    # (ROWS, PAIRS) from here on; values are not turned
    turned = inside & (c < (H + G) * E)[None, :] & (not NORMED)
    cosine = tl.load(cosines + angle, mask=turned, other=1.0)
    sine = tl.load(sines + angle, mask=turned, other=0.0)
    low = first * cosine - second * sine
    high = second * cosine + first * sine
    if head < H:
        into = q + r[:, None] * (H * E) + c[None, :]
        tl.store(into, low.to(q.dtype.element_ty), mask=inside)
        tl.store(into + E // 2, high.to(q.dtype.element_ty), mask=inside)
    else:
        cache = own_k
        group = head - H
        if head >= H + G:
            cache = own_v
            group = head - H - G
        into = cache + ((r[:, None] * new + at) * G + group) * E + i[None, :]
        tl.store(into, low.to(own_k.dtype.element_ty), mask=inside)
        tl.store(into + E // 2, high.to(own_k.dtype.element_ty), mask=inside)


@triton.jit
def _norm_and_turn(x, place, gain, cosines, sines, angle, inside, epsilon, E: tl.constexpr):
    """RMSNorm of heads (M, E) at x + place, then the rotation by the angles of one position; float32."""
    e = tl.arange(0, E)
    # the other half of the pair, whose sine counts against the lower one
    other = (e + E // 2) % E
    sign = tl.where(e < E // 2, -1.0, 1.0)
    own = tl.load(x + place + e[None, :], mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    far = tl.load(x + place + other[None, :], mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    r = tl.rsqrt(tl.sum(own * own, axis=1) / E + epsilon)[:, None]
    own = own * r * tl.load(gain + e).to(tl.float32)[None, :]
    far = far * r * tl.load(gain + other).to(tl.float32)[None, :]
    cosine = tl.load(cosines + angle * (E // 2) + e % (E // 2))
    sine = tl.load(sines + angle * (E // 2) + e % (E // 2)) * sign
    return own * cosine[None, :] + far * sine[None, :]


@triton.jit
def _see_keys(
    state, total, weight, q_ME, k, v, first, count, scale,
    G: tl.constexpr, E: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of keys from `first` on: the running maximum, sum and weighted values of a softmax."""
    t = first + tl.arange(0, KEYS)
    e = tl.arange(0, E)
    inside = t < count
    k_TE = tl.load(k + t[:, None] * (G * E) + e[None, :], mask=inside[:, None], other=0.0, cache_modifier=".cg")
    v_TE = tl.load(v + t[:, None] * (G * E) + e[None, :], mask=inside[:, None], other=0.0, cache_modifier=".cg")
    scores = tl.dot(q_ME, tl.trans(k_TE), input_precision=PRECISION) * scale
    scores = tl.where(inside[None, :], scores, float("-inf"))
    largest = tl.maximum(state, tl.max(scores, axis=1))
    share = tl.exp(scores - largest[:, None])
    shrink = tl.exp(state - largest)
    weight = weight * shrink + tl.sum(share, axis=1)
    total = total * shrink[:, None] + tl.dot(share.to(v_TE.dtype), v_TE, input_precision=PRECISION)
    return largest, total, weight


@triton.jit
def attention_tile(
    task, attended, q, prompt_k, prompt_v, own_k, own_v, gain_q, gain_k, cosines, sines, lengths, at, length, new, scale, epsilon,
    H: tl.constexpr, G: tl.constexpr, E: tl.constexpr, REPLIES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """One reply and key head: its H / G queries over the prompt's keys, which its siblings read too, and its own.

    NORMED: queries and the new key come as they were projected; this is the one program that reads them, so it norms and turns them
    here, and the key stays so in the cache.
    """
    shared: tl.constexpr = H // G
    row, group = task // G, task % G
    prompt = row // REPLIES
    m, e = tl.arange(0, QUERIES), tl.arange(0, E)
    head = row * (H * E) + (group * shared + m[:, None]) * E
    place = head + e[None, :]
    known = tl.load(lengths + prompt).to(tl.int32)
    if NORMED:
        angle = known + at
        q_ME = _norm_and_turn(q, head, gain_q, cosines, sines, angle, (m < shared)[:, None], epsilon, E)
        q_ME = q_ME.to(q.dtype.element_ty)
        newest = ((row * new + at) * G + group) * E + tl.zeros((1, 1), tl.int32)
        k_1E = _norm_and_turn(own_k, newest, gain_k, cosines, sines, angle, newest >= 0, epsilon, E)
        # every thread has read the key before one writes it, and it is written before one sees it
        tl.debug_barrier()
        tl.store(own_k + newest + e[None, :], k_1E.to(own_k.dtype.element_ty))
        tl.debug_barrier()
    else:
        q_ME = tl.load(q + place, mask=(m < shared)[:, None], other=0.0, cache_modifier=".cg")
    state = tl.full((QUERIES,), -1e30, tl.float32)
    weight = tl.zeros((QUERIES,), tl.float32)
    total = tl.zeros((QUERIES, E), tl.float32)
    from_k, from_v = prompt_k + (prompt * length * G + group) * E, prompt_v + (prompt * length * G + group) * E
    for first in range(0, known, KEYS):
        state, total, weight = _see_keys(
            state, total, weight, q_ME, from_k, from_v, first, known, scale, G, E, KEYS, PRECISION
        )
    from_k, from_v = own_k + (row * new * G + group) * E, own_v + (row * new * G + group) * E
    for first in range(0, at + 1, KEYS):
        state, total, weight = _see_keys(
            state, total, weight, q_ME, from_k, from_v, first, at + 1, scale, G, E, KEYS, PRECISION
        )
    y = total / weight[:, None]
    tl.store(attended + place, y.to(attended.dtype.element_ty), mask=(m < shared)[:, None])


@triton.jit
def add_tile(
    task, x, inner, w, rows,
    D: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """x += inner W^T for COLUMNS features, which no other tile touches."""
    c = task * COLUMNS + tl.arange(0, COLUMNS)
    r = tl.arange(0, ROWS)
    change = product(inner, inner, w, c, rows, 0.0, K, ROWS, COLUMNS, SPLIT, BLOCK, False, PRECISION)
    place = x + r[:, None] * D + c[None, :]
    inside = (r < rows)[:, None]
    tl.store(place, tl.load(place, mask=inside, other=0.0, cache_modifier=".cg") + change, mask=inside)


@triton.jit
def gate_up_tile(
    task, inner, x, gain, w, rows, epsilon,
    D: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """silu(gate) * up for COLUMNS features, silu(z) = z / (1 + e^-z)."""
    c = task * COLUMNS + tl.arange(0, COLUMNS)
    gate, up = product_pair(x, gain, w, c, c + F, rows, epsilon, D, ROWS, COLUMNS, SPLIT, BLOCK, PRECISION)
    y = gate / (1.0 + tl.exp(-gate)) * up
    r = tl.arange(0, ROWS)
    tl.store(inner + r[:, None] * F + c[None, :], y.to(inner.dtype.element_ty), mask=(r < rows)[:, None])


@triton.jit
def logits_tile(
    task, logits, x, gain, w, rows, epsilon, vocabulary,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """COLUMNS logits of every row, float32; the last tile overlaps its neighbour rather than overrun."""
    c = tl.minimum(task * COLUMNS + tl.arange(0, COLUMNS), vocabulary - 1)
    y = product(x, gain, w, c, rows, epsilon, D, ROWS, COLUMNS, SPLIT, BLOCK, True, PRECISION)
    r = tl.arange(0, ROWS)
    inside = (r < rows)[:, None] & (task * COLUMNS + tl.arange(0, COLUMNS) < vocabulary)[None, :]
    tl.store(logits + r[:, None] * vocabulary + c[None, :], y, mask=inside)
