"""Triton device functions for the diagonal: a chunk's continuants, Moebius hops and how scans combine.

Legend: alpha_i = a_i - z = x_i - i eta; k_i = b_i c_i; a chunk is the positions s..t; K(s..t) is the continuant
(the determinant of that block of H - z), K of nothing is 1. The matrix of a chunk is
    p00 = K(s..t)     p01 = -k_{s-1} K(s+1..t)
    p10 = K(s..t-1)   p11 = -k_{s-1} K(s+1..t-1)
mu = 1/d_{s-1} enters a chunk from the left and tau = k_t/e_{t+1} from the right; they leave it as
    (p10 + p11 mu)/(p00 + p01 mu)      and      (p11 tau - p01)/(p00 - p10 tau).
A continuant reads the same from both ends, so one product serves both directions.
A complex number is a pair of float32 tensors of shape (rows, chunks); a matrix is a tuple of eight.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def reciprocal(x, PTX: tl.constexpr):
    """1/x to 1 ulp in one instruction; plain division where there is no inline assembly (the interpreter)."""
    if PTX:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


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
def chunk_product(x, k, left, kappas, eta, CHUNK: tl.constexpr):
    """The matrix of one chunk, scaled by a power of two, and how well the chunk forgets.

    The set of all states that can leave a chunk is a disc (Weyl's). `right` and `left` are its diameters over eta for
    the two directions: across a chunk a wrong state shrinks at least by that factor. `kappas` are the couplings inside,
    multiplied in groups of eight.
    """
    eta2 = eta * eta
    one = tl.zeros_like(left) + 1.0
    # A = K(s..i), B = K(s+1..i), C = K(s..i-1), D = K(s+1..i-1) at i = s + 1
    a_re, a_im = x[0] * x[1] - (eta2 + k[0]), -(x[0] + x[1])
    b_re, b_im = x[1], -one
    c_re, c_im = x[0], -one
    d_re, d_im = one, one * 0.0
    kappa = one
    for i in tl.static_range(2, CHUNK):
        a_re, a_im, c_re, c_im = continue_product(x[i], k[i - 1], a_re, a_im, c_re, c_im, eta2)
        b_re, b_im, d_re, d_im = continue_product(x[i], k[i - 1], b_re, b_im, d_re, d_im, eta2)
        # eight factors stay inside float32 up to |alpha| = 5e4
        if i % 8 == 7 or i == CHUNK - 1:
            scale = power_of_two_scale(a_re, a_im * eta)
            a_re, a_im, b_re, b_im = a_re * scale, a_im * scale, b_re * scale, b_im * scale
            c_re, c_im, d_re, d_im = c_re * scale, c_im * scale, d_re * scale, d_im * scale
            kappa = kappa * kappas[i // 8] * scale * scale
    a_im, b_im, c_im, d_im = a_im * eta, b_im * eta, c_im * eta, d_im * eta
    # |AD - BC| = kappa; the disc's diameter is k kappa / |Im(conj(A) B)|; Im(A/B) and Im(A/C) are at most -eta
    size = tl.abs(eta)
    right = tl.maximum(tl.abs(a_re * b_im - a_im * b_re), size * (b_re * b_re + b_im * b_im))
    before = tl.maximum(tl.abs(a_re * c_im - a_im * c_re), size * (c_re * c_re + c_im * c_im))
    # the difference is 0, or NaN where the product is not finite
    kappa = kappa / size + (a_re - a_re)
    matrix = (a_re, a_im, -left * b_re, -left * b_im, c_re, c_im, -left * d_re, -left * d_im)
    return matrix, kappa * tl.abs(k[CHUNK - 1]) / right, kappa * tl.abs(left) / before


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
def hop_right(p, mu_re, mu_im, PTX: tl.constexpr):
    """The state that leaves a chunk to the right: (p10 + p11 mu)/(p00 + p01 mu)."""
    return _moebius(p[4], p[5], p[6], p[7], p[0], p[1], p[2], p[3], mu_re, mu_im, PTX)


@triton.jit
def hop_left(p, tau_re, tau_im, PTX: tl.constexpr):
    """The state that leaves a chunk to the left: (p11 tau - p01)/(p00 - p10 tau)."""
    return _moebius(-p[2], -p[3], p[6], p[7], p[0], p[1], -p[4], -p[5], tau_re, tau_im, PTX)


@triton.jit
def multiply(a00r, a00i, a01r, a01i, a10r, a10i, a11r, a11i, b00r, b00i, b01r, b01i, b10r, b10i, b11r, b11i):
    """(later) x (earlier), scaled by a power of two: how a scan from the right combines."""
    r00 = (a00r * b00r - a00i * b00i) + (a01r * b10r - a01i * b10i)
    i00 = (a00r * b00i + a00i * b00r) + (a01r * b10i + a01i * b10r)
    r01 = (a00r * b01r - a00i * b01i) + (a01r * b11r - a01i * b11i)
    i01 = (a00r * b01i + a00i * b01r) + (a01r * b11i + a01i * b11r)
    r10 = (a10r * b00r - a10i * b00i) + (a11r * b10r - a11i * b10i)
    i10 = (a10r * b00i + a10i * b00r) + (a11r * b10i + a11i * b10r)
    r11 = (a10r * b01r - a10i * b01i) + (a11r * b11r - a11i * b11i)
    i11 = (a10r * b01i + a10i * b01r) + (a11r * b11i + a11i * b11r)
    s = power_of_two_scale(r00, i00)
    return r00 * s, i00 * s, r01 * s, i01 * s, r10 * s, i10 * s, r11 * s, i11 * s


@triton.jit
def multiply_earlier_first(a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7):
    """How a scan from the left combines: it hands over (product so far, next), and the next is the later factor."""
    return multiply(b0, b1, b2, b3, b4, b5, b6, b7, a0, a1, a2, a3, a4, a5, a6, a7)
