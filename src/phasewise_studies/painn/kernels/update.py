"""The update of an atom in three kernels: mix, a dense layer (`dense.linear`), gate.

    mix    V_k = mu_k Cv, U_k = mu_k Cu; n = sqrt(sum_k V_k^2 + eps); s = sum_k V_k U_k
    linear h = silu(B1 [q, n] + b1)
    gate   (a, b, c) = B2 h + b2; q += a + c s; mu_k += b U_k

Norm, scalar product and gating ride on the tiles of the products that make their operands: 6 tiles of mix and 3 of gate stay in
registers. Counted for one atom and F = 128, written and read again if each step stood alone: V^2, its sum, the root, V U and
its sum 11 kB; a, b, c, c s, b U and the three sums 9 kB. Here: V, U (3 kB, the adjoint needs them), n, s, b and c.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.dense import (
    Precision,
    TileLaunch,
    choose_tile,
    find_strides,
    join,
    load_weight,
    multiply,
)

# in ascending order of the atoms that they are for
MIX_LAUNCHES = (
    TileLaunch(16, 16), TileLaunch(64, 16), TileLaunch(64, 32, 16), TileLaunch(128, 32, 16, warps=8),
)  # fmt: skip
GATE_LAUNCHES = (
    TileLaunch(16, 16), TileLaunch(64, 32), TileLaunch(64, 32, 64, stages=2),
)  # fmt: skip
# from so many atoms on, tiles of 16 x 16 are more than two for each of 132 multiprocessors: they wait for each other and read each
# weight for 16 atoms alone, while 64 rows still take as long as for one atom
MIX_LIMITS, GATE_LIMITS = (384, 4096), (384,)


def mix(
    mu: Tensor, weight: Tensor, epsilon: float, *, precision: Precision = "tf32x3", launch: TileLaunch | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(V, U) as (A, 3, 2F), the norm n (A, F) and s = <V, U> (A, F), from mu (A, 3, F) and weight (2F, F), which may be `dense.split`."""
    if not has_kernel(mu.device, mu.dtype):
        return mix_plain(mu, join(weight), epsilon)
    atoms, _, features = mu.shape
    launch = launch or choose_tile(MIX_LAUNCHES, MIX_LIMITS, mu)
    assert mu.is_contiguous() and features % max(launch.depth, launch.columns) == 0
    stride_part, stride_n, stride_k = find_strides(weight)
    vu = torch.empty((atoms, 3, 2 * features), dtype=mu.dtype, device=mu.device)
    norm, dot = (torch.empty((atoms, features), dtype=mu.dtype, device=mu.device) for _ in range(2))
    if atoms:
        mix_kernel[(triton.cdiv(atoms, launch.rows), features // launch.columns)](
            vu, norm, dot, mu, weight, stride_k, stride_n, stride_part, atoms, epsilon, FEATURES=features,
            PRECISION="split" if stride_part else precision, ROWS=launch.rows, COLUMNS=launch.columns, STEP=launch.depth,
            num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
    return vu, norm, dot


def mix_plain(mu: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """The same in plain PyTorch, any floating dtype."""
    vu = functional.linear(mu, weight)
    v, u = vu.chunk(2, dim=-1)
    return vu, torch.sqrt((v**2).sum(1) + epsilon), (v * u).sum(1)


def gate(
    h: Tensor, weight: Tensor, bias: Tensor, q: Tensor, mu: Tensor | None, vu: Tensor, dot: Tensor,
    *, precision: Precision = "tf32x3", launch: TileLaunch | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:  # fmt: skip
    """q (A, F) and mu (A, 3, F) after the update, and the gates (b, c) as (A, 2F), which the adjoint needs.

    Args:
        h: (A, F).
        weight, bias: (3F, F), which may be `dense.split`, and (3F,).
        q: (A, F).
        mu: (A, 3, F), or None in the last layer, whose mu nothing reads: b is not evaluated then, and is not written.
        vu, dot: of `mix`.
    """
    if not has_kernel(h.device, h.dtype):
        return gate_plain(h, join(weight), bias, q, mu, vu, dot)
    atoms, features = h.shape
    launch = launch or choose_tile(GATE_LAUNCHES, GATE_LIMITS, h)
    last = mu is None
    assert all(t.is_contiguous() for t in (h, q, vu, dot)) and (last or mu.is_contiguous())
    assert features % max(launch.depth, launch.columns) == 0
    stride_part, stride_n, stride_k = find_strides(weight)
    q_out = torch.empty_like(q)
    mu_out = None if last else torch.empty_like(mu)
    gates = torch.empty((atoms, 2 * features), dtype=h.dtype, device=h.device)
    if atoms:
        gate_kernel[(triton.cdiv(atoms, launch.rows), features // launch.columns)](
            q_out, q if last else mu_out, gates, h, weight, bias, q, q if last else mu, vu, dot,
            stride_k, stride_n, stride_part, atoms,
            FEATURES=features, LAST=last, PRECISION="split" if stride_part else precision, ROWS=launch.rows,
            COLUMNS=launch.columns, STEP=launch.depth, num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
    return q_out, mu_out, gates


def gate_plain(
    h: Tensor, weight: Tensor, bias: Tensor, q: Tensor, mu: Tensor | None, vu: Tensor, dot: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The same in plain PyTorch, any floating dtype."""
    a, b, c = functional.linear(h, weight, bias).chunk(3, dim=1)
    mu_out = None if mu is None else mu + b[:, None] * vu.chunk(2, dim=-1)[1]
    return q + a + c * dot, mu_out, torch.cat((b, c), dim=1)


@triton.jit(do_not_specialize=["atoms"])
def mix_kernel(
    vu, norm, dot, mu, weight, stride_k, stride_n, stride_part, atoms, epsilon,
    FEATURES: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """One tile of V and U, all three components."""
    a = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = a < atoms
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    v_x, v_y, v_z, u_x, u_y, u_z = zero, zero, zero, zero, zero, zero
    for begin in range(0, FEATURES, STEP):
        k = begin + tl.arange(0, STEP)
        at = mu + a * (3 * FEATURES) + k[None, :]
        x = tl.load(at, mask=valid, other=0.0)
        y = tl.load(at + FEATURES, mask=valid, other=0.0)
        z = tl.load(at + 2 * FEATURES, mask=valid, other=0.0)
        at = weight + k[:, None] * stride_k + n[None, :] * stride_n
        c_v, rest_v = load_weight(at, stride_part, None, PRECISION)
        c_u, rest_u = load_weight(at + FEATURES * stride_n, stride_part, None, PRECISION)
        v_x += multiply(x, c_v, rest_v, zero, PRECISION)
        v_y += multiply(y, c_v, rest_v, zero, PRECISION)
        v_z += multiply(z, c_v, rest_v, zero, PRECISION)
        u_x += multiply(x, c_u, rest_u, zero, PRECISION)
        u_y += multiply(y, c_u, rest_u, zero, PRECISION)
        u_z += multiply(z, c_u, rest_u, zero, PRECISION)
    at = vu + a * (6 * FEATURES) + n[None, :]
    tl.store(at, v_x, mask=valid)
    tl.store(at + FEATURES, u_x, mask=valid)
    tl.store(at + 2 * FEATURES, v_y, mask=valid)
    tl.store(at + 3 * FEATURES, u_y, mask=valid)
    tl.store(at + 4 * FEATURES, v_z, mask=valid)
    tl.store(at + 5 * FEATURES, u_z, mask=valid)
    at = a * FEATURES + n[None, :]
    tl.store(norm + at, tl.sqrt_rn(v_x * v_x + v_y * v_y + v_z * v_z + epsilon), mask=valid)
    tl.store(dot + at, v_x * u_x + v_y * u_y + v_z * u_z, mask=valid)


@triton.jit(do_not_specialize=["atoms"])
def gate_kernel(
    q_out, mu_out, gates, h, weight, bias, q, mu, vu, dot, stride_k, stride_n, stride_part, atoms,
    FEATURES: tl.constexpr, LAST: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """One tile of a, b and c, and what they are for."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = row < atoms
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    a, b, c = zero, zero, zero
    for begin in range(0, FEATURES, STEP):
        k = begin + tl.arange(0, STEP)
        tile = tl.load(h + row * FEATURES + k[None, :], mask=valid, other=0.0)
        at = weight + k[:, None] * stride_k + n[None, :] * stride_n
        first, rest = load_weight(at, stride_part, None, PRECISION)
        a += multiply(tile, first, rest, zero, PRECISION)
        if not LAST:
            first, rest = load_weight(at + FEATURES * stride_n, stride_part, None, PRECISION)
            b += multiply(tile, first, rest, zero, PRECISION)
        first, rest = load_weight(at + 2 * FEATURES * stride_n, stride_part, None, PRECISION)
        c += multiply(tile, first, rest, zero, PRECISION)
    a += tl.load(bias + n)[None, :]
    c += tl.load(bias + 2 * FEATURES + n)[None, :]
    at = row * FEATURES + n[None, :]
    tl.store(
        q_out + at,
        tl.load(q + at, mask=valid, other=0.0) + a + c * tl.load(dot + at, mask=valid, other=0.0),
        mask=valid,
    )
    at = row * (2 * FEATURES) + n[None, :]
    tl.store(gates + at + FEATURES, c, mask=valid)
    if not LAST:
        b += tl.load(bias + FEATURES + n)[None, :]
        tl.store(gates + at, b, mask=valid)
        for k in tl.static_range(3):
            at = (row * 3 + k) * FEATURES + n[None, :]
            u = tl.load(vu + (row * 3 + k) * (2 * FEATURES) + FEATURES + n[None, :], mask=valid, other=0.0)
            tl.store(mu_out + at, tl.load(mu + at, mask=valid, other=0.0) + b * u, mask=valid)
