"""The diagonal of (H - z)^-1 in one fused Triton pass: a, b, c are read once and G is written once.

A program is one warp that walks along a row, 32 chunks a step: each lane multiplies the Moebius maps of its chunk, the states
at the chunk's two ends come from a few hops between lanes, and the recursions are replayed inside the chunk. What lies
beyond the step's right end is seen through its last VIEW lanes, whose results the next step makes again. Weyl's discs say
whether VIEW chunks are enough; where they are not, the program does its positions over, exactly: once from the right, then
once from the left. Nothing passes between warps, so there is nothing to wait for. See README.md.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import reciprocal
from phasewise_studies.bk_core.kernels.moebius import (
    chunk_product,
    count_hops,
    hop_left,
    invert,
    run_left,
    run_right,
    spread,
    times_add,
)
from phasewise_studies.bk_core.kernels.warp import LANES, from_left, from_right, load_step, pick, put


@triton.jit
def replay(x, k, left, mu, tau, eta, CHUNK: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr):
    """Re and Im of G for a chunk by elimination and substitution, and m = 1/d at its end.

    d_i = alpha_i - k_{i-1} m_{i-1} from the left, then G_i = m_i + k_i m_i^2 G_{i+1} from the right: one reciprocal an
    element. Where m is much larger than G digits are lost: not for small eta.
    """
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    m_re, m_im = (), ()
    for i in tl.static_range(CHUNK):
        q = reciprocal(d_re * d_re + d_im * d_im, PTX)
        m_re += (d_re * q,)
        m_im += (-d_im * q,)
        if i + 1 < CHUNK:
            s = k[i] * q
            d_re, d_im = x[i + 1] - d_re * s, d_im * s - eta
    end = (m_re[CHUNK - 1], m_im[CHUNK - 1])
    if CAUSAL:
        return m_re, m_im, end
    g = invert(d_re - tau[0], d_im - tau[1], PTX)
    g_re, g_im = (g[0],), (g[1],)
    for i in tl.static_range(CHUNK - 2, -1, -1):
        u, v = k[i] * m_re[i], k[i] * m_im[i]
        f = (u * m_re[i] - v * m_im[i], 2.0 * (u * m_im[i]))
        g = times_add(f, g, (m_re[i], m_im[i]))
        g_re = (g[0],) + g_re  # noqa: RUF005
        g_im = (g[1],) + g_im  # noqa: RUF005
    return g_re, g_im, end


@triton.jit
def replay_sharp(x, k, left, mu, tau, eta, CHUNK: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr):
    """The same by the ratio form, G_i = 1/(d_i - k_i/e_{i+1}): three reciprocals an element, right for any eta."""
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    ds_re, ds_im = (d_re,), (d_im,)
    for i in tl.static_range(1, CHUNK):
        s = k[i - 1] * reciprocal(d_re * d_re + d_im * d_im, PTX)
        d_re, d_im = x[i] - d_re * s, d_im * s - eta
        ds_re += (d_re,)
        ds_im += (d_im,)
    end = invert(d_re, d_im, PTX)
    t_re, t_im = tau[0], tau[1]
    g_re, g_im = (), ()
    for i in tl.static_range(CHUNK - 1, -1, -1):
        if CAUSAL:
            g = invert(ds_re[i], ds_im[i], PTX)
        else:
            g = invert(ds_re[i] - t_re, ds_im[i] - t_im, PTX)
            if i > 0:
                e_re, e_im = x[i] - t_re, -eta - t_im
                s = k[i - 1] * reciprocal(e_re * e_re + e_im * e_im, PTX)
                t_re, t_im = e_re * s, -e_im * s
        g_re = (g[0],) + g_re  # noqa: RUF005
        g_im = (g[1],) + g_im  # noqa: RUF005
    return g_re, g_im, end


@triton.jit
def interleave(re, im, WIDTH: tl.constexpr):
    """re_0, im_0, re_1, im_1, ..."""
    both = ()
    for i in tl.static_range(WIDTH):
        both += (re[i], im[i])
    return both


@triton.jit
def _redo(
    out, states, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, low, high,
    CHUNK: tl.constexpr, CAUSAL: tl.constexpr, SHARP: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Chunks low .. high - 1 of a row without any bound: tau is carried from the right end, then mu from the left one.

    Each lane reads back from `states` what it wrote there itself.
    """
    zero = tl.zeros((LANES,), tl.float32)
    lane = tl.arange(0, LANES)
    if not CAUSAL:
        tau_in = (zero, zero)
        for step in range((chunks - 1) // LANES, low // LANES - 1, -1):
            x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, step * LANES, length, CHUNK)
            p, survives = chunk_product(x, k, left, eta, CHUNK)
            _, tau = spread(p, tau_in, tau_in, tl.minimum(count_hops(survives), LANES - 1), False, True, PTX)
            if SHARP:
                tau = from_right(run_left(x, k, left, tau, eta, CHUNK, PTX), tau_in)
                leaves = run_left(x, k, left, tau, eta, CHUNK, PTX)
            else:
                leaves = hop_left(p, tau, PTX)
            tl.store(states + step * (2 * LANES) + lane, tau[0])
            tl.store(states + step * (2 * LANES) + LANES + lane, tau[1])
            tau_in = (pick(leaves[0], 0), pick(leaves[1], 0))
    mu_in = (zero, zero)
    for step in range(0, (high + LANES - 1) // LANES):
        x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, step * LANES, length, CHUNK)
        p, survives = chunk_product(x, k, left, eta, CHUNK)
        mu, tau = spread(p, mu_in, mu_in, tl.minimum(count_hops(survives), LANES - 1), True, False, PTX)
        if SHARP:
            mu = from_left(run_right(x, k, left, mu, eta, CHUNK, PTX), mu_in)
        if not CAUSAL:
            own = lane * 0 + step >= low // LANES
            tau = (tl.load(states + step * (2 * LANES) + lane, mask=own, other=0.0),
                   tl.load(states + step * (2 * LANES) + LANES + lane, mask=own, other=0.0))  # fmt: skip
        if SHARP:
            re, im, end = replay_sharp(x, k, left, mu, tau, eta, CHUNK, CAUSAL, PTX)
        else:
            re, im, end = replay(x, k, left, mu, tau, eta, CHUNK, CAUSAL, PTX)
        put(out, interleave(re, im, CHUNK), step * LANES, low, high, 2 * length, 2 * CHUNK)
        mu_in = (pick(end[0], LANES - 1), pick(end[1], LANES - 1))


@triton.jit
def _walk(
    out, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks,
    CHUNK: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """A whole row, 32 chunks a step; returns whether a step's right end could not be seen.

    mu is carried from step to step. tau enters a step through the products of the next one, which are made a step ahead.
    """
    zero = tl.zeros((LANES,), tl.float32)
    none = (zero, zero)
    mu_in = none
    steps = (chunks + LANES - 1) // LANES
    unseen = chunks < 0
    x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, 0, length, CHUNK)
    p, survives = chunk_product(x, k, left, eta, CHUNK)
    hops = count_hops(survives)
    for step in range(steps):
        tau_in = none
        later_x, later_k, later_left, later_p, later_hops = x, k, left, p, hops
        if step + 1 < steps:
            later_x, later_k, later_left = load_step(
                a, b, c, stride_an, stride_bn, stride_cn, energy, (step + 1) * LANES, length, CHUNK
            )
            later_p, survives = chunk_product(later_x, later_k, later_left, eta, CHUNK)
            later_hops = count_hops(survives)
            if not CAUSAL:
                _, tau = spread(later_p, none, none, tl.minimum(later_hops, LANES) - 1, False, True, PTX)
                leaves = hop_left(later_p, tau, PTX)
                tau_in = (pick(leaves[0], 0), pick(leaves[1], 0))
                # the last step sees the row's end
                unseen = unseen | ((later_hops >= LANES) & (step + 2 < steps))
        mu, tau = spread(p, mu_in, tau_in, tl.minimum(hops, LANES - 1), True, not CAUSAL, PTX)
        re, im, last = replay(x, k, left, mu, tau, eta, CHUNK, CAUSAL, PTX)
        put(out, interleave(re, im, CHUNK), step * LANES, 0, chunks, 2 * length, 2 * CHUNK)
        mu_in = (pick(last[0], LANES - 1), pick(last[1], LANES - 1))
        x, k, left, p, hops = later_x, later_k, later_left, later_p, later_hops
    return unseen


@triton.jit
def _walk_part(
    out, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, low, high,
    CHUNK: tl.constexpr, VIEW: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Chunks low .. high - 1 of a row; returns whether VIEW chunks on either side were too few.

    A step sees its right end through its last VIEW lanes, whose results the next step makes again; the first one also
    looks back.
    """
    right: tl.constexpr = 0 if CAUSAL else VIEW
    stride: tl.constexpr = LANES - right
    zero = tl.zeros((LANES,), tl.float32)
    none = (zero, zero)
    mu_in = none
    first = low - VIEW
    steps = 1 + (tl.maximum(tl.minimum(high + right, chunks) - first - LANES, 0) + stride - 1) // stride
    unseen = chunks < 0
    for step in range(steps):
        x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, first, length, CHUNK)
        p, survives = chunk_product(x, k, left, eta, CHUNK)
        hops = count_hops(survives)
        # what lies beyond a row's end is known, and so is what comes from the step before
        closed = (first + LANES >= chunks) | CAUSAL
        begun = (first <= 0) | (step > 0)
        unseen = unseen | ((hops > VIEW) & ((closed & begun) == 0))
        mu, tau = spread(p, mu_in, none, tl.minimum(hops, LANES - 1), True, not CAUSAL, PTX)
        re, im, last = replay(x, k, left, mu, tau, eta, CHUNK, CAUSAL, PTX)
        seen = tl.where(closed, LANES, stride)
        put(out, interleave(re, im, CHUNK), first, tl.maximum(first, low), tl.minimum(high, first + seen),
            2 * length, 2 * CHUNK)  # fmt: skip
        mu_in = (pick(last[0], stride - 1), pick(last[1], stride - 1))
        first += stride
    return unseen


@triton.jit(do_not_specialize=["chunks", "span", "stride_z"])
def diagonal_kernel(
    out, states, a, b, c, z, energy, eta, length, chunks, span,
    stride_ab, stride_an, stride_bb, stride_bn, stride_cb, stride_cn, stride_z,
    CHUNK: tl.constexpr, VIEW: tl.constexpr, ALONE: tl.constexpr, CAUSAL: tl.constexpr, SHARP: tl.constexpr,
    ROW_Z: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Grid (rows, parts): `span` chunks of a row; ALONE if a row has one part. out is float32 (batch, length, 2)."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    out += row * length * 2
    states += row * ((chunks + LANES - 1) // LANES) * (2 * LANES)
    a += row * stride_ab
    b += row * stride_bb
    c += row * stride_cb
    if ROW_Z:
        energy, eta = tl.load(z + row * stride_z), tl.load(z + row * stride_z + 1)
    low = part * span
    high = tl.minimum(low + span, chunks)
    if SHARP:
        _redo(out, states, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, low, high,
              CHUNK, CAUSAL, SHARP, PTX)  # fmt: skip
    else:
        if ALONE:
            unseen = _walk(
                out, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, CHUNK, CAUSAL, PTX
            )
        else:
            unseen = _walk_part(out, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, low, high,
                                CHUNK, VIEW, CAUSAL, PTX)  # fmt: skip
        if unseen:
            _redo(out, states, a, b, c, stride_an, stride_bn, stride_cn, energy, eta, length, chunks, low, high,
                  CHUNK, CAUSAL, SHARP, PTX)  # fmt: skip
