"""The three stages of a step, for Triton: the field of one component, the weights of one token, the source of some rows.

A stage takes from the others only what `.cg` loads fetch, past the cache of the multiprocessor: the same code serves as three
kernels a step and as one kernel for all steps.

Axes of the tiles: a plane is flat, (points of the grid,), x before y; rows of the bank come before coordinates or components,
tokens before rows; sums run over the axis that a comment names.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stencil(re, im, there, hop, GRID: tl.constexpr, POINTS: tl.constexpr):
    """T - i a lap T on one periodic plane: re + a lap(im), im - a lap(re)."""
    here = tl.arange(0, POINTS)
    x, y = here // GRID, here % GRID
    up, down = ((x + 1) % GRID) * GRID + y, ((x + GRID - 1) % GRID) * GRID + y
    right, left = x * GRID + (y + 1) % GRID, x * GRID + (y + GRID - 1) % GRID
    a, b = tl.load(re + here, mask=there, other=0.0), tl.load(im + here, mask=there, other=0.0)
    lap_re = (
        tl.load(re + up, mask=there, other=0.0) + tl.load(re + down, mask=there, other=0.0)
        + tl.load(re + right, mask=there, other=0.0) + tl.load(re + left, mask=there, other=0.0) - 4 * a
    )  # fmt: skip
    lap_im = (
        tl.load(im + up, mask=there, other=0.0) + tl.load(im + down, mask=there, other=0.0)
        + tl.load(im + right, mask=there, other=0.0) + tl.load(im + left, mask=there, other=0.0) - 4 * b
    )  # fmt: skip
    return a + hop * lap_im, b - hop * lap_re


@triton.jit
def add_source(re, parts, phase, component, components, blocks, source, BLOCKS: tl.constexpr):
    """re + source u, where u is the sum of what the blocks of rows put into `parts` (P, blocks, DD)."""
    block = tl.arange(0, BLOCKS)
    # (blocks,), strided by the components
    at = parts + (phase * blocks + block) * components + component
    return re + source * tl.sum(tl.load(at, mask=block < blocks, other=0.0, cache_modifier=".cg"), 0)


@triton.jit
def store_plane(out, imaginary, means, moduli, at, re, im, there, GRID: tl.constexpr, POINTS: tl.constexpr):
    """The new plane, its mean Re T and its sum |T|."""
    point = tl.arange(0, POINTS)
    tl.store(out + point, re, mask=there)
    tl.store(out + imaginary + point, im, mask=there)
    tl.store(means + at, tl.sum(tl.where(there, re, 0.0), 0) / (GRID * GRID))
    tl.store(moduli + at, tl.sum(tl.where(there, tl.sqrt(re * re + im * im), 0.0), 0))


@triton.jit
def load_rows(coords, valid, bank, N: tl.constexpr, ROWS: tl.constexpr):
    """Scaled, rotated rows (K, N) and which of them count."""
    rows = tl.arange(0, ROWS)
    there = rows < bank
    # (rows, coordinates)
    c = tl.load(coords + rows[:, None] * N + tl.arange(0, N)[None, :], mask=there[:, None], other=0.0)
    return c, there & (tl.load(valid + rows, mask=there, other=0) != 0)


@triton.jit
def load_projection(projection, components, N: tl.constexpr, COMPONENTS: tl.constexpr):
    """W, transposed: (DD, N)."""
    column = tl.arange(0, COMPONENTS)
    # (components, coordinates)
    at = projection + column[:, None] * N + tl.arange(0, N)[None, :]
    return tl.load(at, mask=(column < components)[:, None], other=0.0)


@triton.jit
def project(w, means, components, COMPONENTS: tl.constexpr):
    """W m for m (DD,)."""
    column = tl.arange(0, COMPONENTS)
    m = tl.load(means + column, mask=column < components, other=0.0, cache_modifier=".cg")
    # over components: (coordinates,)
    return tl.sum(w * m[:, None], 0)


@triton.jit
def nudge(q, free, target, phase, kappa):
    """q + sign kappa (q* - q_free): the phases are nudged by 0, 1 and -1."""
    sign = tl.where(phase == 0, 0.0, tl.where(phase == 1, 1.0, -1.0))
    return q + sign * kappa * (target - free)


@triton.jit
def measure_distance(c, q, eps):
    """sqrt(sum_i (C_ji - q_i)^2 + eps), the differences taken directly."""
    # (rows, coordinates), summed over coordinates
    difference = c - q[None, :]
    return tl.sqrt(tl.sum(difference * difference, 1) + eps)


@triton.jit
def store_weights(
    out, moduli, distance, usable, beta, elements, bank, components,
    ROWS: tl.constexpr, COMPONENTS: tl.constexpr, FORMAT: tl.constexpr,
):  # fmt: skip
    """softmax(-beta R d) as float32 (0), float16 (1), bfloat16 (2), or float16 high, low, high side by side (3)."""
    rows = tl.arange(0, ROWS)
    there = rows < bank
    column = tl.arange(0, COMPONENTS)
    r = tl.sum(tl.load(moduli + column, mask=column < components, other=0.0, cache_modifier=".cg"), 0) / elements
    score = tl.where(usable, -beta * r * distance, float("-inf"))
    e = tl.exp(score - tl.max(score, 0))
    weights = e / tl.sum(e, 0)
    if FORMAT == 3:
        high = weights.to(tl.float16)
        tl.store(out + rows, high, mask=there)
        tl.store(out + bank + rows, (weights - high.to(tl.float32)).to(tl.float16), mask=there)
        tl.store(out + 2 * bank + rows, high, mask=there)
    else:
        tl.store(out + rows, weights.to(out.dtype.element_ty), mask=there)


@triton.jit
def load_lifted(lifted, block, bank, components, ROWS: tl.constexpr, COMPONENTS: tl.constexpr):
    """A block of lifted states, (ROWS, DD) of (K, DD)."""
    rows = block * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COMPONENTS)
    # (rows, components)
    mask = (rows < bank)[:, None] & (column < components)[None, :]
    return tl.load(lifted + rows[:, None].to(tl.int64) * components + column[None, :], mask=mask, other=0.0)


@triton.jit
def spread_rows(
    parts, weights, z, block, phase, step, phases, batch, bank, components, blocks,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, COMPONENTS: tl.constexpr, FORMAT: tl.constexpr,
):  # fmt: skip
    """The share of a block of rows in u = L mean_b y_b: the mean weight of each row times its lifted state."""
    rows = block * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, TOKENS)
    column = tl.arange(0, COMPONENTS)
    pitch = 3 * bank if FORMAT == 3 else bank
    line = ((step * phases + phase) * batch + token).to(tl.int64) * pitch
    # w: (tokens, rows)
    at = weights + line[:, None] + rows[None, :]
    mask = (token < batch)[:, None] & (rows < bank)[None, :]
    w = tl.load(at, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    if FORMAT == 3:
        w += tl.load(at + bank, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    # over tokens, then over rows: (components,)
    u = tl.sum(z * (tl.sum(w, 0) / batch)[:, None], 0)
    tl.store(parts + (phase * blocks + block) * components + column, u, mask=column < components)
