"""The gradient of the diagonal in one fused Triton pass: a, b, c and dL/dG are read once, dL/da (and b, c, z) written once.

The forward pass is a chain, d_i = alpha_i - k_{i-1} m_{i-1} with m = 1/d, then G_i = m_i + f_i G_{i+1} with f = k m^2. Its adjoint
runs the other way round, with the same factors f (w_i = dL/dRe G_i - i dL/dIm G_i, everything holomorphic):
    from the left    u_i = w_i + f_{i-1} u_{i-1}
    from the right   v_i = f_i v_{i+1} - m_i (2 G_i - m_i) u_i,       dL/da_i = Re v_i,       dL/dz = -sum v_i
    dL/dk_i = Re[m_i (u_i m_i G_{i+1} - v_{i+1})],      dL/db_i = c_i dL/dk_i,      dL/dc_i = b_i dL/dk_i
Causal, G_i = m_i: v_i = f_i v_{i+1} - m_i^2 w_i, dL/dk_i = -Re[m_i v_{i+1}]. Across a chunk both recursions are affine with
the same slope, the product of its f. The walk, the view ahead, the exact way and the axes are those of
forward.py; w holds pairs, so that w[2 i] and w[2 i + 1] are Re and Im of dL/dG at position i.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import reciprocal
from phasewise_studies.bk_core.kernels.moebius import (
    chunk_product,
    count_affine_hops,
    count_hops,
    hop_left,
    invert,
    run_left,
    run_right,
    spread,
    spread_affine_left,
    spread_affine_right,
    times,
    times_add,
)
from phasewise_studies.bk_core.kernels.warp import (
    LANES,
    fetch,
    fetch_couplings,
    fetch_edge,
    from_left,
    from_right,
    load_step,
    pick,
    put,
    split_couplings,
    unweave,
)


@triton.jit
def _eliminate(x, k, left, mu, eta, CHUNK: tl.constexpr, PTX: tl.constexpr):
    """m_i = 1/d_i and f_i = k_i m_i^2 of a chunk, the product of its f, and the last d."""
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    m, f = (), ()
    slope = (x[0] * 0.0 + 1.0, x[0] * 0.0)
    for i in tl.static_range(CHUNK):
        q = reciprocal(d_re * d_re + d_im * d_im, PTX)
        re, im = d_re * q, -d_im * q
        s_re, s_im = k[i] * re, k[i] * im
        m += ((re, im),)
        f += ((s_re * re - s_im * im, 2.0 * (s_re * im)),)
        slope = times(slope, f[i])
        if i + 1 < CHUNK:
            d_re, d_im = x[i + 1] - s_re, -eta - s_im
    return m, f, slope, (d_re, d_im)


@triton.jit
def _gather_left(w, f, inward, CHUNK: tl.constexpr):
    """u_i of a chunk from what enters it; the last entry is what leaves it."""
    u = ((w[0] + inward[0], inward[1] - w[1]),)
    for i in tl.static_range(1, CHUNK):
        u += (times_add(f[i - 1], u[i - 1], (w[2 * i], -w[2 * i + 1])),)
    return u + (times(f[CHUNK - 1], u[CHUNK - 1]),)  # noqa: RUF005


@triton.jit
def _sources(w, m, f, u, d, tau, CHUNK: tl.constexpr, CAUSAL: tl.constexpr, PTX: tl.constexpr):
    """r_i, which v_i = f_i v_{i+1} + r_i adds, the part of dL/dk_i that no v is in, and G at the chunk's start."""
    r, parts = (), ()
    g = tau
    for i in tl.static_range(CHUNK - 1, -1, -1):
        if CAUSAL:
            r = (times(times(m[i], m[i]), (-w[2 * i], w[2 * i + 1])),) + r  # noqa: RUF005
            parts = (tau[0],) + parts  # noqa: RUF005
        else:
            um = times(u[i], m[i])
            if i + 1 == CHUNK:
                parts = (um,) + parts  # noqa: RUF005
                g = invert(d[0] - tau[0], d[1] - tau[1], PTX)
            else:
                # Re of u m^2 G_{i+1}
                mum = times(um, m[i])
                parts = (mum[0] * g[0] - mum[1] * g[1],) + parts  # noqa: RUF005
                g = times_add(f[i], g, m[i])
            r = (times(um, (m[i][0] - 2.0 * g[0], m[i][1] - 2.0 * g[1])),) + r  # noqa: RUF005
    return r, parts, g


@triton.jit
def _run_left(f, r, v, CHUNK: tl.constexpr):
    """v at a chunk's start from v beyond its end."""
    for i in tl.static_range(CHUNK - 1, -1, -1):
        v = times_add(f[i], v, r[i])
    return v


@triton.jit
def _finish(
    grad_a, grad_b, grad_c, b_tile, c_tile, m, f, r, parts, v_in, g_in, first, low, high, length, total,
    CHUNK: tl.constexpr, CAUSAL: tl.constexpr, COUPLINGS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Run v from the right, write the gradients, and return v at each chunk's start and the sum of all v so far."""
    v = v_in
    by_a, by_k = (), ()
    keep = (first + tl.arange(0, LANES) >= low) & (first + tl.arange(0, LANES) < high)
    for i in tl.static_range(CHUNK - 1, -1, -1):
        if COUPLINGS:
            through = m[i][0] * v[0] - m[i][1] * v[1]
            if CAUSAL:
                by_k = (-through,) + by_k  # noqa: RUF005
            else:
                part = parts[i]
                if i + 1 == CHUNK:
                    mum = times(part, m[i])
                    part = mum[0] * g_in[0] - mum[1] * g_in[1]
                by_k = (part - through,) + by_k  # noqa: RUF005
        v = times_add(f[i], v, r[i])
        by_a = (v[0],) + by_a  # noqa: RUF005
        inside = keep & ((first + tl.arange(0, LANES)) * CHUNK + i < length)
        total = (total[0] + tl.where(inside, v[0], 0.0), total[1] + tl.where(inside, v[1], 0.0))
    put(grad_a, by_a, first, low, high, length, CHUNK)
    if COUPLINGS:
        if SHARED:
            put(grad_b, by_k, first, low, high, length, CHUNK)
        else:
            b, c = unweave(b_tile, CHUNK), unweave(c_tile, CHUNK)
            by_b, by_c = (), ()
            for i in tl.static_range(CHUNK):
                by_b += (by_k[i] * c[i],)
                by_c += (by_k[i] * b[i],)
            put(grad_b, by_b, first, low, high, length, CHUNK)
            put(grad_c, by_c, first, low, high, length, CHUNK)
    return v, total


@triton.jit
def _redo(
    grad_a, grad_b, grad_c, states, w_row, a, b, c, stride_an, stride_bn, stride_cn, stride_wn,
    energy, eta, length, chunks, low, high,
    CHUNK: tl.constexpr, CAUSAL: tl.constexpr, SHARP: tl.constexpr, COUPLINGS: tl.constexpr, SHARED: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """Chunks low .. high - 1 without any bound: mu and u are carried from the left end, then the rest from the right one.

    Each lane reads back from `states` what it wrote there itself; programs of one row write the same bits.
    """
    zero = tl.zeros((LANES,), tl.float32)
    none = (zero, zero)
    lane = tl.arange(0, LANES)
    mu_in, u_edge = (zero, zero), (zero, zero)
    for step in range(0, (chunks + LANES - 1) // LANES):
        first = step * LANES
        x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, first, length, CHUNK)
        w = unweave(fetch(w_row, stride_wn, first, 2 * length, 0.0, 2 * CHUNK), 2 * CHUNK)
        p, survives = chunk_product(x, k, left, eta, CHUNK)
        mu, _ = spread(p, mu_in, none, tl.minimum(count_hops(survives), LANES - 1), True, False, PTX)
        if SHARP:
            mu = from_left(run_right(x, k, left, mu, eta, CHUNK, PTX), mu_in)
        m, f, slope, _ = _eliminate(x, k, left, mu, eta, CHUNK, PTX)
        inward = u_edge
        if not CAUSAL:
            leaves = _gather_left(w, f, none, CHUNK)[CHUNK]
            inward = spread_affine_right(slope, leaves, u_edge, tl.minimum(count_affine_hops(slope), LANES - 1))
            end = times_add(slope, inward, leaves)
            u_edge = (pick(end[0], LANES - 1), pick(end[1], LANES - 1))
        at = states + step * (4 * LANES) + lane
        tl.store(at, mu[0])
        tl.store(at + LANES, mu[1])
        tl.store(at + 2 * LANES, inward[0])
        tl.store(at + 3 * LANES, inward[1])
        mu_in = (pick(m[CHUNK - 1][0], LANES - 1), pick(m[CHUNK - 1][1], LANES - 1))
    total = (zero, zero)
    tau_in, v_edge, g_edge = (zero, zero), (zero, zero), (zero, zero)
    for step in range((chunks - 1) // LANES, low // LANES - 1, -1):
        first = step * LANES
        x, k, left = load_step(a, b, c, stride_an, stride_bn, stride_cn, energy, first, length, CHUNK)
        w = unweave(fetch(w_row, stride_wn, first, 2 * length, 0.0, 2 * CHUNK), 2 * CHUNK)
        at = states + step * (4 * LANES) + lane
        mu, inward = (tl.load(at), tl.load(at + LANES)), (tl.load(at + 2 * LANES), tl.load(at + 3 * LANES))
        tau = none
        if not CAUSAL:
            p, survives = chunk_product(x, k, left, eta, CHUNK)
            _, tau = spread(p, none, tau_in, tl.minimum(count_hops(survives), LANES - 1), False, True, PTX)
            if SHARP:
                tau = from_right(run_left(x, k, left, tau, eta, CHUNK, PTX), tau_in)
                out = run_left(x, k, left, tau, eta, CHUNK, PTX)
            else:
                out = hop_left(p, tau, PTX)
            tau_in = (pick(out[0], 0), pick(out[1], 0))
        m, f, slope, d = _eliminate(x, k, left, mu, eta, CHUNK, PTX)
        u = _gather_left(w, f, inward, CHUNK)
        r, parts, g = _sources(w, m, f, u, d, tau, CHUNK, CAUSAL, PTX)
        leaves = _run_left(f, r, none, CHUNK)
        v_in = spread_affine_left(slope, leaves, v_edge, tl.minimum(count_affine_hops(slope), LANES - 1))
        g_in = from_right(g, g_edge)
        b_tile, c_tile = fetch_couplings(b, c, stride_bn, stride_cn, first, length, CHUNK)
        v, total = _finish(
            grad_a, grad_b, grad_c, b_tile, c_tile, m, f, r, parts, v_in, g_in, first, low, high, length, total,
            CHUNK, CAUSAL, COUPLINGS, SHARED,
        )  # fmt: skip
        v_edge, g_edge = (pick(v[0], 0), pick(v[1], 0)), (pick(g[0], 0), pick(g[1], 0))
    return total


@triton.jit(do_not_specialize=["chunks", "span", "stride_z"])
def gradient_kernel(
    grad_a, grad_b, grad_c, grad_z, states, w_row, a, b, c, z, energy, eta, length, chunks, span,
    stride_wb, stride_wn, stride_ab, stride_an, stride_bb, stride_bn, stride_cb, stride_cn, stride_z,
    CHUNK: tl.constexpr, VIEW: tl.constexpr, ALONE: tl.constexpr, CAUSAL: tl.constexpr, SHARP: tl.constexpr,
    ROW_Z: tl.constexpr, COUPLINGS: tl.constexpr, SHARED: tl.constexpr, SHIFT: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Grid (rows, parts), as in `diagonal_kernel`. w_row holds dL/dRe G + i dL/dIm G as pairs; grad_a is (batch, length).

    COUPLINGS: also grad_b and grad_c, or dL/dk in grad_b where b and c are SHARED, (batch, length) with nothing in the last
    column. SHIFT: sum v in grad_z (batch, parts, 2).
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    grad_a += row * length
    grad_b += row * length
    grad_c += row * length
    states += row * ((chunks + LANES - 1) // LANES) * (4 * LANES)
    w_row += row * stride_wb
    a += row * stride_ab
    b += row * stride_bb
    c += row * stride_cb
    if ROW_Z:
        energy, eta = tl.load(z + row * stride_z), tl.load(z + row * stride_z + 1)
    low = part * span
    high = tl.minimum(low + span, chunks)
    zero = tl.zeros((LANES,), tl.float32)
    total = (zero, zero)
    if SHARP:
        total = _redo(grad_a, grad_b, grad_c, states, w_row, a, b, c, stride_an, stride_bn, stride_cn, stride_wn,
                      energy, eta, length, chunks, low, high, CHUNK, CAUSAL, SHARP, COUPLINGS, SHARED, PTX)  # fmt: skip
    else:
        stride: tl.constexpr = LANES - VIEW
        none = (zero, zero)
        mu_in, u_edge = (zero, zero), (zero, zero)
        first = low if ALONE else low - VIEW
        steps = 1 + (tl.maximum(tl.minimum(high + VIEW, chunks) - first - LANES, 0) + stride - 1) // stride
        unproven = low < 0
        next_a = fetch(a, stride_an, first, length, energy + 1.0, CHUNK)
        next_w = fetch(w_row, stride_wn, first, 2 * length, 0.0, 2 * CHUNK)
        for step in range(steps):
            x = unweave(next_a - energy, CHUNK)
            w = unweave(next_w, 2 * CHUNK)
            end = tl.where(step + 1 < steps, length, 0)
            next_a = fetch(a, stride_an, first + stride, end, energy + 1.0, CHUNK)
            next_w = fetch(w_row, stride_wn, first + stride, 2 * end, 0.0, 2 * CHUNK)
            edge_b, edge_c = fetch_edge(b, c, stride_bn, stride_cn, first, length, CHUNK)
            b_tile, c_tile = fetch_couplings(b, c, stride_bn, stride_cn, first, length, CHUNK)
            k, left = split_couplings(b_tile * c_tile, edge_b * edge_c, CHUNK)
            p, survives = chunk_product(x, k, left, eta, CHUNK)
            hops = count_hops(survives)
            mu, tau = spread(p, mu_in, none, tl.minimum(hops, LANES - 1), True, not CAUSAL, PTX)
            m, f, slope, d = _eliminate(x, k, left, mu, eta, CHUNK, PTX)
            hops = tl.minimum(tl.maximum(hops, count_affine_hops(slope)), LANES)
            known = (first + LANES >= chunks) & ((first <= 0) | (step > 0))
            unproven = unproven | ((hops > VIEW) & (known == 0))
            hops = tl.minimum(hops, LANES - 1)
            inward = none
            if not CAUSAL:
                inward = spread_affine_right(slope, _gather_left(w, f, none, CHUNK)[CHUNK], u_edge, hops)
            u = _gather_left(w, f, inward, CHUNK)
            r, parts, g = _sources(w, m, f, u, d, tau, CHUNK, CAUSAL, PTX)
            v_in = spread_affine_left(slope, _run_left(f, r, none, CHUNK), none, hops)
            seen = tl.where(first + LANES >= chunks, LANES, stride)
            _, total = _finish(
                grad_a, grad_b, grad_c, b_tile, c_tile, m, f, r, parts, v_in, from_right(g, none), first,
                tl.maximum(first, low), tl.minimum(high, first + seen), length, total,
                CHUNK, CAUSAL, COUPLINGS, SHARED,
            )  # fmt: skip
            mu_in = (pick(m[CHUNK - 1][0], stride - 1), pick(m[CHUNK - 1][1], stride - 1))
            u_edge = (pick(u[CHUNK][0], stride - 1), pick(u[CHUNK][1], stride - 1))
            first += stride
        if unproven:
            total = _redo(grad_a, grad_b, grad_c, states, w_row, a, b, c, stride_an, stride_bn, stride_cn, stride_wn,
                          energy, eta, length, chunks, low, high, CHUNK, CAUSAL, SHARP, COUPLINGS, SHARED, PTX)  # fmt: skip
    if SHIFT:
        at = grad_z + (row * tl.num_programs(1) + part) * 2
        tl.store(at, tl.sum(total[0]))
        tl.store(at + 1, tl.sum(total[1]))
