"""Triton device functions of the recursion: a chunk's continuants, Moebius hops, and how well a chunk forgets.

Legend: alpha_i = a_i - z = x_i - i eta; k_i = b_i c_i; a chunk is the positions s..t; K(s..t) is the continuant
(the determinant of that block of H - z), K of nothing is 1. The matrix of a chunk is
    p00 = K(s..t)     p01 = -k_{s-1} K(s+1..t)
    p10 = K(s..t-1)   p11 = -k_{s-1} K(s+1..t-1)
mu = 1/d_{s-1} enters a chunk from the left and tau = k_t/e_{t+1} from the right; they leave it as
    (p10 + p11 mu)/(p00 + p01 mu)      and      (p11 tau - p01)/(p00 - p10 tau).
A continuant reads the same from both ends, so one product serves both directions.
"""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise.kit.fast_math import reciprocal
from phasewise_studies.bk_core.kernels.warp import LANES, from_left, from_right

# the cure for couplings whose products would leave float32: they count as this in the bound, never in the result
SMALLEST_COUPLING = tl.constexpr(2.0**-14)


@triton.jit
def invert(re, im, PTX: tl.constexpr):
    """1 / (re + i im)."""
    q = reciprocal(re * re + im * im, PTX)
    return re * q, -im * q


@triton.jit
def times(u, v):
    """The product of two complex numbers."""
    return u[0] * v[0] - u[1] * v[1], u[0] * v[1] + u[1] * v[0]


@triton.jit
def times_add(u, v, w):
    """u v + w in four fused operations."""
    return u[0] * v[0] + (w[0] - u[1] * v[1]), u[0] * v[1] + (u[1] * v[0] + w[1])


@triton.jit
def power_of_two_scale(re, im):
    """2^-exponent of the larger part, from its bits: exact, without log or exp."""
    bits = tl.maximum(tl.abs(re), tl.abs(im)).to(tl.int32, bitcast=True)
    return (0x7F000000 - (bits & 0x7F800000)).to(tl.float32, bitcast=True)


@triton.jit
def continue_product(x, k, new_re, new_im, old_re, old_im, eta2):
    """alpha new - k old, where imaginary parts are kept in units of eta: five instructions instead of six."""
    re = x * new_re + (eta2 * new_im - k * old_re)
    im = x * new_im - (new_re + k * old_im)
    return re, im, new_re, new_im


@triton.jit
def chunk_product(x, k, left, eta, CHUNK: tl.constexpr):
    """The matrix of one chunk, scaled by a power of two, and what survives of a wrong state across it.

    The set of all states that can leave a chunk is a disc (Weyl's), of diameter k kappa/|Im(conj(A) B)|; that over eta
    bounds how much of a wrong state survives (Schwarz-Pick). 1 where no disc is known: a NaN, a coupling below 0.
    """
    eta2 = eta * eta
    one = tl.zeros_like(left) + 1.0
    # A = K(s..i), B = K(s+1..i), C = K(s..i-1), D = K(s+1..i-1) at i = s + 1
    a_re, a_im = x[0] * x[1] - (eta2 + k[0]), -(x[0] + x[1])
    b_re, b_im = x[1], -one
    c_re, c_im = x[0], -one
    d_re, d_im = one, one * 0.0
    kappa, couplings = one, tl.maximum(tl.abs(k[0]), SMALLEST_COUPLING)
    lowest = tl.minimum(tl.minimum(left, k[CHUNK - 1]), k[0])
    for i in tl.static_range(2, CHUNK):
        a_re, a_im, c_re, c_im = continue_product(x[i], k[i - 1], a_re, a_im, c_re, c_im, eta2)
        b_re, b_im, d_re, d_im = continue_product(x[i], k[i - 1], b_re, b_im, d_re, d_im, eta2)
        couplings = couplings * tl.maximum(tl.abs(k[i - 1]), SMALLEST_COUPLING)
        lowest = tl.minimum(lowest, k[i - 1])
        # eight factors stay inside float32 up to |alpha| = 5e4
        if i % 8 == 7 or i == CHUNK - 1:
            scale = power_of_two_scale(a_re, a_im * eta)
            a_re, a_im, b_re, b_im = a_re * scale, a_im * scale, b_re * scale, b_im * scale
            c_re, c_im, d_re, d_im = c_re * scale, c_im * scale, d_re * scale, d_im * scale
            kappa, couplings = kappa * couplings * scale * scale, one
    a_im, b_im, c_im, d_im = a_im * eta, b_im * eta, c_im * eta, d_im * eta
    # |AD - BC| = kappa; Im(A/B) and Im(A/C) are at most -eta
    size = tl.abs(eta)
    right = tl.maximum(tl.abs(a_re * b_im - a_im * b_re), size * (b_re * b_re + b_im * b_im))
    before = tl.maximum(tl.abs(a_re * c_im - a_im * c_re), size * (c_re * c_re + c_im * c_im))
    # the difference is 0, or NaN where the product is not finite
    kappa = kappa / size + (a_re - a_re)
    survives = tl.maximum(kappa * tl.abs(k[CHUNK - 1]) / right, kappa * tl.abs(left) / before)
    survives = tl.where((lowest >= 0.0) & (right + before + kappa < float("inf")), survives, 1.0)
    matrix = (a_re, a_im, -left * b_re, -left * b_im, c_re, c_im, -left * d_re, -left * d_im)
    return matrix, survives


@triton.jit
def count_hops(survives):
    """Chunks after which a wrong state is forgotten, the same for all lanes; LANES where that is not known."""
    worst = tl.max(survives)
    # forgotten is 2^-25: half a unit of float32's last place
    hops = 25.0 / -tl.log2(tl.minimum(tl.maximum(worst, 1e-30), 0.5))
    return tl.where(worst < 0.5, hops.to(tl.int32) + 1, LANES)


@triton.jit
def _moebius(n0_re, n0_im, n1_re, n1_im, d0_re, d0_im, d1_re, d1_im, s_re, s_im, PTX: tl.constexpr):
    # (n0 + n1 s)/(d0 + d1 s)
    n_re = n0_re + (n1_re * s_re - n1_im * s_im)
    n_im = n0_im + (n1_re * s_im + n1_im * s_re)
    d_re = d0_re + (d1_re * s_re - d1_im * s_im)
    d_im = d0_im + (d1_re * s_im + d1_im * s_re)
    scale = reciprocal(d_re * d_re + d_im * d_im, PTX)
    return (n_re * d_re + n_im * d_im) * scale, (n_im * d_re - n_re * d_im) * scale


@triton.jit
def hop_right(p, mu, PTX: tl.constexpr):
    """The state that leaves a chunk to the right: (p10 + p11 mu)/(p00 + p01 mu)."""
    return _moebius(p[4], p[5], p[6], p[7], p[0], p[1], p[2], p[3], mu[0], mu[1], PTX)


@triton.jit
def hop_left(p, tau, PTX: tl.constexpr):
    """The state that leaves a chunk to the left: (p11 tau - p01)/(p00 - p10 tau)."""
    return _moebius(-p[2], -p[3], p[6], p[7], p[0], p[1], -p[4], -p[5], tau[0], tau[1], PTX)


@triton.jit
def run_right(x, k, left, mu, eta, CHUNK: tl.constexpr, PTX: tl.constexpr):
    """The state that leaves a chunk to the right, by the ratio recursion: slower and more exact than the product."""
    d_re, d_im = x[0] - left * mu[0], -eta - left * mu[1]
    for i in tl.static_range(1, CHUNK):
        s = k[i - 1] * reciprocal(d_re * d_re + d_im * d_im, PTX)
        d_re, d_im = x[i] - d_re * s, d_im * s - eta
    return invert(d_re, d_im, PTX)


@triton.jit
def run_left(x, k, left, tau, eta, CHUNK: tl.constexpr, PTX: tl.constexpr):
    """The state that leaves a chunk to the left, by the ratio recursion."""
    e_re, e_im = x[CHUNK - 1] - tau[0], -eta - tau[1]
    for i in tl.static_range(CHUNK - 2, -1, -1):
        s = k[i] * reciprocal(e_re * e_re + e_im * e_im, PTX)
        e_re, e_im = x[i] - e_re * s, e_im * s - eta
    re, im = invert(e_re, e_im, PTX)
    return left * re, left * im


@triton.jit
def spread(p, mu_in, tau_in, hops, RIGHT: tl.constexpr, LEFT: tl.constexpr, PTX: tl.constexpr):
    """mu and tau as they enter each chunk, from what enters the warp's first and last one; 0 for a way not asked for."""
    zero = tl.zeros_like(p[0])
    lane = tl.arange(0, LANES)
    mu = (tl.where(lane == 0, mu_in[0], zero), tl.where(lane == 0, mu_in[1], zero))
    tau = (tl.where(lane == LANES - 1, tau_in[0], zero), tl.where(lane == LANES - 1, tau_in[1], zero))
    for _ in range(hops):
        if RIGHT:
            mu = from_left(hop_right(p, mu, PTX), mu_in)
        if LEFT:
            tau = from_right(hop_left(p, tau, PTX), tau_in)
    return mu, tau


@triton.jit
def count_affine_hops(slope):
    """The same where value -> slope value + leaves across a chunk."""
    return count_hops(tl.sqrt(slope[0] * slope[0] + slope[1] * slope[1]))


@triton.jit
def spread_affine_right(slope, leaves, edge, hops):
    """What enters each chunk from the left, where value -> slope value + leaves; `edge` enters the first one."""
    lane = tl.arange(0, LANES)
    inward = (tl.where(lane == 0, edge[0], 0.0), tl.where(lane == 0, edge[1], 0.0))
    for _ in range(hops):
        inward = from_left(times_add(slope, inward, leaves), edge)
    return inward


@triton.jit
def spread_affine_left(slope, leaves, edge, hops):
    """The same from the right; `edge` enters the last chunk."""
    lane = tl.arange(0, LANES)
    inward = (tl.where(lane == LANES - 1, edge[0], 0.0), tl.where(lane == LANES - 1, edge[1], 0.0))
    for _ in range(hops):
        inward = from_right(times_add(slope, inward, leaves), edge)
    return inward
