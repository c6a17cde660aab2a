"""The diagonal of (H - z)^-1 in one fused Triton pass: a, b, c are read once and G is written once.

A program owns whole rows (or one tile of a long row). Each thread multiplies the Moebius maps of one chunk; the states at
the chunk's two ends then come either from a few hops between neighbours, where the Weyl discs prove that more cannot
matter, or from a scan over all chunks; last, the ratio recursions are replayed inside the chunk. See README.md.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.workloads.bk_core.lanes import exchange, load_alpha, load_couplings, unweave, weave
from phasewise.workloads.bk_core.moebius import (
    chunk_product,
    hop_left,
    hop_right,
    multiply,
    multiply_earlier_first,
    reciprocal,
)


@triton.jit
def _enter_tile(products, row, tile, tiles, PTX: tl.constexpr):
    """mu and tau as they enter one tile of a long row, by hops over the other tiles."""
    zero = tl.zeros((1, 1), tl.float32)
    mu, tau = (zero, zero), (zero, zero)
    base = products + row * tiles * 8
    for t in range(tile):
        at = base + t * 8
        p = (zero + tl.load(at), zero + tl.load(at + 1), zero + tl.load(at + 2), zero + tl.load(at + 3),
             zero + tl.load(at + 4), zero + tl.load(at + 5), zero + tl.load(at + 6), zero + tl.load(at + 7))  # fmt: skip
        mu = hop_right(p, mu[0], mu[1], PTX)
    for t in range(tiles - 1, tile, -1):
        at = base + t * 8
        p = (zero + tl.load(at), zero + tl.load(at + 1), zero + tl.load(at + 2), zero + tl.load(at + 3),
             zero + tl.load(at + 4), zero + tl.load(at + 5), zero + tl.load(at + 6), zero + tl.load(at + 7))  # fmt: skip
        tau = hop_left(p, tau[0], tau[1], PTX)
    return mu, tau


@triton.jit
def _enter_chunks(
    p, right, before, lowest, mu_in, tau_in, side, chunk,
    ROWS: tl.constexpr, CHUNKS: tl.constexpr, CAUSAL: tl.constexpr, SCAN: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """mu and tau as they enter each chunk of a row."""
    zero = tl.zeros_like(p[0])
    mu = (tl.where(chunk == 0, mu_in[0], zero), tl.where(chunk == 0, mu_in[1], zero))
    tau = (tl.where(chunk == CHUNKS - 1, tau_in[0], zero), tl.where(chunk == CHUNKS - 1, tau_in[1], zero))
    if CHUNKS > 1:
        if SCAN:
            prefix = tl.associative_scan(p, 1, multiply_earlier_first)
            mu = hop_right(prefix, mu_in[0] + zero, mu_in[1] + zero, PTX)
            if not CAUSAL:
                suffix = tl.associative_scan(p, 1, multiply, reverse=True)
                tau = hop_left(suffix, tau_in[0] + zero, tau_in[1] + zero, PTX)
            mu, tau = exchange(mu, tau, mu_in, tau_in, side, chunk, ROWS, CHUNKS, PTX)
        else:
            forget = right if CAUSAL else tl.maximum(right, before)
            # hops with forget^hops <= 2^-25; CHUNKS - 1 hops are exact, whatever the discs say
            few = tl.where(forget <= 2.98e-8, 1, tl.where(forget <= 1.72e-4, 2, tl.where(forget <= 3.1e-3, 3, 4)))
            more = tl.where(forget <= 5.5e-2, 6, tl.where(forget <= 0.23, 12, tl.where(forget <= 0.48, 24, CHUNKS - 1)))
            hops = tl.where(forget <= 1.31e-2, few, more)
            # there are no discs for a NaN or for a coupling below 0
            hops = tl.where((lowest >= 0.0) & (right + before < float("inf")), hops, CHUNKS - 1)
            hops = tl.minimum(tl.max(hops), CHUNKS - 1)
            for _ in range(hops):
                mu = hop_right(p, mu[0], mu[1], PTX)
                if not CAUSAL:
                    tau = hop_left(p, tau[0], tau[1], PTX)
                mu, tau = exchange(mu, tau, mu_in, tau_in, side, chunk, ROWS, CHUNKS, PTX)
    return mu, tau


@triton.jit
def _leave_chunks(x, k, left, mu, tau, eta, CHUNK: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr):
    """mu and tau as they leave each chunk, by the ratio recursions: slower and more exact than the product."""
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    for i in tl.static_range(1, CHUNK):
        s = k[i - 1] * reciprocal(d_re * d_re + d_im * d_im, PTX)
        d_re, d_im = x[i] - d_re * s, d_im * s - eta
    q = reciprocal(d_re * d_re + d_im * d_im, PTX)
    mu = (d_re * q, -d_im * q)
    if not CAUSAL:
        e_re, e_im = x[CHUNK - 1] - tau[0], -eta - tau[1]
        for i in tl.static_range(CHUNK - 2, -1, -1):
            s = k[i] * reciprocal(e_re * e_re + e_im * e_im, PTX)
            e_re, e_im = x[i] - e_re * s, e_im * s - eta
        q = left * reciprocal(e_re * e_re + e_im * e_im, PTX)
        tau = (e_re * q, -e_im * q)
    return mu, tau


@triton.jit
def _replay_causal(x, k, left, mu, eta, CHUNK: tl.constexpr, PTX: tl.constexpr):
    """Re and Im of 1/d_i for a chunk."""
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    g_re, g_im = (), ()
    for i in tl.static_range(CHUNK):
        q = reciprocal(d_re * d_re + d_im * d_im, PTX)
        g_re += (d_re * q,)
        g_im += (-d_im * q,)
        if i + 1 < CHUNK:
            # d_{i+1} = alpha_{i+1} - k_i/d_i
            s = k[i] * q
            d_re, d_im = x[i + 1] - d_re * s, d_im * s - eta
    return g_re, g_im


@triton.jit
def _replay(x, k, left, mu, tau, eta, CHUNK: tl.constexpr, PTX: tl.constexpr):
    """Re and Im of G_ii = 1/(d_i - t_i) for a chunk, where t_i = k_i/e_{i+1}.

    d runs from the left while t runs from the right: two chains hide each other's latency, and past the middle each
    meets what the other left there.
    """
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    t_re, t_im = tau[0], tau[1]
    e_re, e_im = x[CHUNK - 1] - t_re, -eta - t_im
    ds_re, ds_im, ts_re, ts_im = (d_re,), (d_im,), (t_re,), (t_im,)
    low_re, low_im, high_re, high_im = (), (), (), ()
    for j in tl.static_range(1, CHUNK):
        # i is CHUNK - 1 - j: d_j = alpha_j - k_{j-1}/d_{j-1} and e_i = alpha_i - k_i/e_{i+1}
        r = k[j - 1] * reciprocal(d_re * d_re + d_im * d_im, PTX)
        s = k[CHUNK - 1 - j] * reciprocal(e_re * e_re + e_im * e_im, PTX)
        d_re, d_im = x[j] - d_re * r, d_im * r - eta
        t_re, t_im = e_re * s, -e_im * s
        e_re, e_im = x[CHUNK - 1 - j] - t_re, -eta - t_im
        if 2 * j < CHUNK:
            ds_re += (d_re,)
            ds_im += (d_im,)
            ts_re += (t_re,)
            ts_im += (t_im,)
        else:
            # w is the conjugate of d - t, so that G is w over |w|^2; ts[i] is t_j
            w_re, w_im = ds_re[CHUNK - 1 - j] - t_re, t_im - ds_im[CHUNK - 1 - j]
            q = reciprocal(w_re * w_re + w_im * w_im, PTX)
            low_re = (w_re * q,) + low_re  # noqa: RUF005
            low_im = (w_im * q,) + low_im  # noqa: RUF005
            w_re, w_im = d_re - ts_re[CHUNK - 1 - j], ts_im[CHUNK - 1 - j] - d_im
            q = reciprocal(w_re * w_re + w_im * w_im, PTX)
            high_re += (w_re * q,)
            high_im += (w_im * q,)
    return low_re + high_re, low_im + high_im


@triton.jit(do_not_specialize=["batch", "tiles"])
def diagonal_forward_kernel(
    out, a, b, c, products, energy, eta, batch, length, tiles,
    stride_ab, stride_an, stride_bb, stride_bn, stride_cb, stride_cn,
    ROWS: tl.constexpr, TURNS: tl.constexpr, CHUNKS: tl.constexpr, CHUNK: tl.constexpr,
    SHARED: tl.constexpr, CAUSAL: tl.constexpr, TILED: tl.constexpr, EVEN: tl.constexpr,
    SCAN: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """ROWS rows side by side, TURNS times; out is float32 (batch, length, 2), contiguous."""
    first_row = tl.program_id(0).to(tl.int64) * (ROWS * TURNS)
    this_tile = tl.program_id(1)
    side = tl.arange(0, ROWS)[:, None]
    chunk = tl.arange(0, CHUNKS)[None, :]
    start = this_tile.to(tl.int64) * (CHUNKS * CHUNK) + chunk * CHUNK
    flat = tl.arange(0, 2 * CHUNK)[None, None, :]
    if SHARED:
        # once for all turns, in narrow pieces: a wide one would hold more registers for the kernel's whole life
        k, left, kappas, lowest = load_couplings(
            b, c, side * 0, side >= 0, start, length, 0, stride_bn, 0, stride_cn, ROWS, CHUNKS, CHUNK, 4
        )
    rows = first_row + side
    ahead = load_alpha(a, rows, rows < batch, start, length, stride_ab, stride_an, energy, CHUNK, EVEN)
    for turn in range(TURNS):
        rows = first_row + turn * ROWS + side
        valid = rows < batch
        if not SHARED:
            k, left, kappas, lowest = load_couplings(
                b, c, rows, valid, start, length, stride_bb, stride_bn, stride_cb, stride_cn,
                ROWS, CHUNKS, CHUNK, CHUNK,
            )  # fmt: skip
        x = unweave(ahead, ROWS, CHUNKS, CHUNK)
        if TURNS > 1:
            # nothing moves a load up over a barrier, so the next turn's rows are asked for here, before the first one
            late = (rows + ROWS < batch) & (turn + 1 < TURNS)
            ahead = load_alpha(a, rows + ROWS, late, start, length, stride_ab, stride_an, energy, CHUNK, EVEN)
        p, right, before = chunk_product(x, k, left, kappas, eta, CHUNK)
        mu_in, tau_in = (0.0, 0.0), (0.0, 0.0)
        if TILED:
            mu_in, tau_in = _enter_tile(products, first_row, this_tile, tiles, PTX)
        mu, tau = _enter_chunks(p, right, before, lowest, mu_in, tau_in, side, chunk, ROWS, CHUNKS, CAUSAL, SCAN, PTX)
        if SCAN and CHUNKS > 1:
            # where little is forgotten, the product's rounding errors would show at the chunks' ends
            mu, tau = _leave_chunks(x, k, left, mu, tau, eta, CHUNK, CAUSAL, PTX)
            mu, tau = exchange(mu, tau, mu_in, tau_in, side, chunk, ROWS, CHUNKS, PTX)
        if CAUSAL:
            g_re, g_im = _replay_causal(x, k, left, mu, eta, CHUNK, PTX)
        else:
            g_re, g_im = _replay(x, k, left, mu, tau, eta, CHUNK, PTX)
        both = tl.join(weave(g_re, CHUNK), weave(g_im, CHUNK))
        at = 2 * start[:, :, None] + flat
        mask = valid[:, :, None] & (EVEN | (at < 2 * length))
        both = tl.reshape(both, (ROWS, CHUNKS, 2 * CHUNK))
        tl.store(out + rows[:, :, None] * (2 * length) + at, both, mask=mask)


@triton.jit(do_not_specialize=["tiles"])
def tile_product_kernel(
    products, a, b, c, energy, eta, length, tiles,
    stride_ab, stride_an, stride_bb, stride_bn, stride_cb, stride_cn,
    CHUNKS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The matrix of each tile of each row; products is float32 (batch, tiles, 8)."""
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    chunk = tl.arange(0, CHUNKS)[None, :]
    rows = row + tl.zeros((1, 1), tl.int64)
    start = tile.to(tl.int64) * (CHUNKS * CHUNK) + chunk * CHUNK
    k, left, kappas, _ = load_couplings(
        b, c, rows, rows >= 0, start, length, stride_bb, stride_bn, stride_cb, stride_cn, 1, CHUNKS, CHUNK, CHUNK
    )
    x = load_alpha(a, rows, rows >= 0, start, length, stride_ab, stride_an, energy, CHUNK, False)
    x = unweave(x, 1, CHUNKS, CHUNK)
    p, _, _ = chunk_product(x, k, left, kappas, eta, CHUNK)
    product = tl.associative_scan(p, 1, multiply_earlier_first)
    for j in tl.static_range(8):
        last = tl.sum(tl.where(chunk == CHUNKS - 1, product[j], 0.0))
        tl.store(products + (row * tiles + tile) * 8 + j, last)
