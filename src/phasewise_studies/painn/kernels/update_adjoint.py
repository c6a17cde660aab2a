"""The adjoint of the update in three kernels: ungate, a dense layer (`dense.linear`), unmix.

    ungate  zbar = silu'(z) (B2^T [qbar, sum_k mubar_k U_k, qbar s])
    linear  [qbar + qc, nbar] = zbar B1 + [qbar, 0]
    unmix   sbar = qbar c;  Vbar_k = sbar U_k + nbar V_k / n;  Ubar_k = mubar_k b + sbar V_k
            mubar_k += Vbar_k Cv^T + Ubar_k Cu^T

where qbar and mubar are the gradients of what the update gave. The gradients of a, b, c, V and U (9F values an atom) are made as
tiles of the products that use them, and never written. In the last layer mubar of the result is 0: no B2 rows for b, no b.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.dense import (
    Precision,
    TileLaunch,
    choose_tile,
    find_strides,
    join,
    load_weight,
    multiply,
    silu_slope,
    silu_slope_plain,
)

# in ascending order of the atoms that they are for; deeper steps spill registers or want more shared memory than there is
UNGATE_LAUNCHES = (
    TileLaunch(16, 16), TileLaunch(64, 32, stages=2), TileLaunch(64, 64, 16, stages=2),
)  # fmt: skip
UNMIX_LAUNCHES = (
    TileLaunch(16, 32, stages=2), TileLaunch(32, 32, 16, stages=2), TileLaunch(64, 64, 16, stages=2),
)  # fmt: skip
# from so many atoms on the next of them is faster on an H200: few atoms want many short tiles, many want each weight read seldom
UNGATE_LIMITS, UNMIX_LIMITS = (768, 16384), (768, 2048)


def ungate(
    qbar: Tensor, mubar: Tensor | None, vu: Tensor, dot: Tensor, z: Tensor, weight: Tensor,
    *, precision: Precision = "tf32x3", launch: TileLaunch | None = None,
) -> Tensor:  # fmt: skip
    """Gradient of z = B1 [q, n] + b1, (A, F).

    Args:
        qbar, mubar: (A, F) and (A, 3, F), gradients of the update's results; mubar None in the last layer.
        vu, dot: of `update.mix`.
        z: (A, F), saved by `dense.linear`.
        weight: B2, (3F, F), which may be `dense.split`.
    """
    if not has_kernel(qbar.device, qbar.dtype):
        return ungate_plain(qbar, mubar, vu, dot, z, join(weight))
    atoms, features = z.shape
    launch = launch or choose_tile(UNGATE_LAUNCHES, UNGATE_LIMITS, z)
    last = mubar is None
    assert qbar.stride(1) == 1 and all(t.is_contiguous() for t in (vu, dot, z)) and (last or mubar.is_contiguous())
    assert features % max(launch.depth, launch.columns) == 0
    stride_part, stride_k, stride_n = find_strides(weight)
    out = torch.empty_like(z)
    if atoms:
        ungate_kernel[(triton.cdiv(atoms, launch.rows), features // launch.columns)](
            out, qbar, z if last else mubar, vu, dot, z, weight, qbar.stride(0), stride_k, stride_n, stride_part, atoms,
            FEATURES=features, LAST=last, PRECISION="split" if stride_part else precision, ROWS=launch.rows,
            COLUMNS=launch.columns, STEP=launch.depth, num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
    return out


def ungate_plain(qbar: Tensor, mubar: Tensor | None, vu: Tensor, dot: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    """The same in plain PyTorch, any floating dtype."""
    bbar = torch.zeros_like(dot) if mubar is None else (mubar * vu.chunk(2, dim=-1)[1]).sum(1)
    return torch.cat((qbar, bbar, qbar * dot), dim=1) @ weight * silu_slope_plain(z)


def unmix(
    qbar: Tensor, nbar: Tensor, mubar: Tensor | None, gates: Tensor, vu: Tensor, norm: Tensor, weight: Tensor,
    *, precision: Precision = "tf32x3", launch: TileLaunch | None = None,
) -> Tensor:  # fmt: skip
    """Gradient of the update's mu (A, 3, F).

    Args:
        qbar, mubar: gradients of the update's results, as for `ungate`.
        nbar: (A, F), gradient of the norm, rows contiguous.
        gates: of `update.gate`; vu and norm of `update.mix`.
        weight: (2F, F) of the mix, which may be `dense.split`.
    """
    if not has_kernel(qbar.device, qbar.dtype):
        return unmix_plain(qbar, nbar, mubar, gates, vu, norm, join(weight))
    atoms, features = norm.shape
    launch = launch or choose_tile(UNMIX_LAUNCHES, UNMIX_LIMITS, norm)
    last = mubar is None
    assert qbar.stride(1) == 1 and nbar.stride(1) == 1 and (last or mubar.is_contiguous())
    assert all(t.is_contiguous() for t in (gates, vu, norm)) and features % max(launch.depth, launch.columns) == 0
    stride_part, stride_k, stride_n = find_strides(weight)
    out = torch.empty((atoms, 3, features), dtype=norm.dtype, device=norm.device)
    if atoms:
        unmix_kernel[(triton.cdiv(atoms, launch.rows), features // launch.columns)](
            out, qbar, nbar, out if last else mubar, gates, vu, norm, weight, qbar.stride(0), nbar.stride(0),
            stride_k, stride_n, stride_part, atoms,
            FEATURES=features, LAST=last, PRECISION="split" if stride_part else precision, ROWS=launch.rows,
            COLUMNS=launch.columns, STEP=launch.depth, num_warps=launch.warps, num_stages=launch.stages,
        )  # fmt: skip
    return out


def unmix_plain(
    qbar: Tensor, nbar: Tensor, mubar: Tensor | None, gates: Tensor, vu: Tensor, norm: Tensor, weight: Tensor
) -> Tensor:
    """The same in plain PyTorch, any floating dtype."""
    b, c = gates.chunk(2, dim=1)
    v, u = vu.chunk(2, dim=-1)
    sbar = (qbar * c)[:, None]
    vbar, ubar = sbar * u + (nbar / norm)[:, None] * v, sbar * v
    if mubar is not None:
        ubar = ubar + mubar * b[:, None]
    out = torch.cat((vbar, ubar), dim=-1) @ weight
    return out if mubar is None else out + mubar


@triton.jit(do_not_specialize=["atoms"])
def ungate_kernel(
    out, qbar, mubar, vu, dot, z, weight, stride_q, stride_k, stride_n, stride_part, atoms,
    FEATURES: tl.constexpr, LAST: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """One tile of zbar."""
    a = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = a < atoms
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = zero
    for begin in range(0, FEATURES, STEP):
        k = begin + tl.arange(0, STEP)
        at = weight + k[:, None] * stride_k + n[None, :] * stride_n
        top = tl.load(qbar + a * stride_q + k[None, :], mask=valid, other=0.0)
        first, rest = load_weight(at, stride_part, None, PRECISION)
        part = multiply(top, first, rest, zero, PRECISION)
        top = top * tl.load(dot + a * FEATURES + k[None, :], mask=valid, other=0.0)
        first, rest = load_weight(at + 2 * FEATURES * stride_k, stride_part, None, PRECISION)
        part = multiply(top, first, rest, part, PRECISION)
        if not LAST:
            m = mubar + a * (3 * FEATURES) + k[None, :]
            u = vu + a * (6 * FEATURES) + FEATURES + k[None, :]
            top = tl.load(m, mask=valid, other=0.0) * tl.load(u, mask=valid, other=0.0)
            top += tl.load(m + FEATURES, mask=valid, other=0.0) * tl.load(u + 2 * FEATURES, mask=valid, other=0.0)
            top += tl.load(m + 2 * FEATURES, mask=valid, other=0.0) * tl.load(u + 4 * FEATURES, mask=valid, other=0.0)
            first, rest = load_weight(at + FEATURES * stride_k, stride_part, None, PRECISION)
            part = multiply(top, first, rest, part, PRECISION)
        total += part
    at = a * FEATURES + n[None, :]
    tl.store(out + at, total * silu_slope(tl.load(z + at, mask=valid, other=0.0)), mask=valid)


@triton.jit
def unmix_component(zero, sbar, ratio, b, mubar, vu, c_v, rest_v, c_u, rest_u, valid, LAST: tl.constexpr,
                    FEATURES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """One component's share of one step over the inputs."""
    v = tl.load(vu, mask=valid, other=0.0)
    u = tl.load(vu + FEATURES, mask=valid, other=0.0)
    ubar = sbar * v
    if not LAST:
        ubar += tl.load(mubar, mask=valid, other=0.0) * b
    part = multiply(ubar, c_u, rest_u, zero, PRECISION)
    return multiply(sbar * u + ratio * v, c_v, rest_v, part, PRECISION)


@triton.jit(do_not_specialize=["atoms"])
def unmix_kernel(
    out, qbar, nbar, mubar, gates, vu, norm, weight, stride_q, stride_norm, stride_k, stride_n, stride_part, atoms,
    FEATURES: tl.constexpr, LAST: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """One tile of mubar, all three components."""
    a = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    valid = a < atoms
    zero = tl.zeros((ROWS, COLUMNS), tl.float32)
    x, y, z = zero, zero, zero
    for begin in range(0, FEATURES, STEP):
        k = begin + tl.arange(0, STEP)
        at = gates + a * (2 * FEATURES) + k[None, :]
        sbar = tl.load(qbar + a * stride_q + k[None, :], mask=valid, other=0.0)
        sbar = sbar * tl.load(at + FEATURES, mask=valid, other=0.0)
        ratio = tl.load(nbar + a * stride_norm + k[None, :], mask=valid, other=0.0)
        ratio = ratio / tl.load(norm + a * FEATURES + k[None, :], mask=valid, other=1.0)
        b = sbar
        if not LAST:
            b = tl.load(at, mask=valid, other=0.0)
        at = weight + k[:, None] * stride_k + n[None, :] * stride_n
        c_v, rest_v = load_weight(at, stride_part, None, PRECISION)
        c_u, rest_u = load_weight(at + FEATURES * stride_k, stride_part, None, PRECISION)
        m = mubar + a * (3 * FEATURES) + k[None, :]
        p = vu + a * (6 * FEATURES) + k[None, :]
        x += unmix_component(zero, sbar, ratio, b, m, p, c_v, rest_v, c_u, rest_u, valid, LAST, FEATURES, PRECISION)
        m, p = m + FEATURES, p + 2 * FEATURES
        y += unmix_component(zero, sbar, ratio, b, m, p, c_v, rest_v, c_u, rest_u, valid, LAST, FEATURES, PRECISION)
        m, p = m + FEATURES, p + 2 * FEATURES
        z += unmix_component(zero, sbar, ratio, b, m, p, c_v, rest_v, c_u, rest_u, valid, LAST, FEATURES, PRECISION)
    at = a * (3 * FEATURES) + n[None, :]
    if not LAST:
        x += tl.load(mubar + at, mask=valid, other=0.0)
        y += tl.load(mubar + at + FEATURES, mask=valid, other=0.0)
        z += tl.load(mubar + at + 2 * FEATURES, mask=valid, other=0.0)
    tl.store(out + at, x, mask=valid)
    tl.store(out + at + FEATURES, y, mask=valid)
    tl.store(out + at + 2 * FEATURES, z, mask=valid)
