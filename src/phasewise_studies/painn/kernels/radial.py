"""What an edge's distance and direction give to every layer: radial functions times cutoff, their slopes, the direction.

    record[e] = (phi_1 f, ..., phi_K f, f, u_x, u_y, u_z)         f = cos^2(pi d / 2 r_c) = (cos(pi d / r_c) + 1) / 2
    slope[e]  = ((phi_1 f)', ..., (phi_K f)', f', 1/d)            ' = d/dd

so that one filter value is W = sum_n record_n Wf_n + f bf, K + 1 multiply-adds, and its derivative costs the same: the
cutoff stands inside the records. They are evaluated once for the six passes (three layers, forward and adjoint) that
read them. 96 + 88 B an edge written; 2K exponentials (or sines) an edge instead of 2K for each layer, pass and feature.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.layout import Sizes

BLOCK = 64


def edge_records(r: Tensor, row_ptr: Tensor, sizes: Sizes, *, slopes: bool = True) -> tuple[Tensor, Tensor]:
    """Records (E, K + 4) and slopes (E, K + 2) of edge vectors r (E, 3), float32; slopes (0, K + 2) if not asked for.

    Places from `row_ptr[A]` on are left as they are: nothing that walks the rows reads them.
    """
    edges, radial = r.shape[0], sizes.radial
    assert radial % 2 == 0, "records are read in pairs of floats"
    if not has_kernel(r.device, r.dtype):
        return edge_records_plain(r, sizes, slopes=slopes)
    record = torch.empty((edges, radial + 4), dtype=torch.float32, device=r.device)
    slope = torch.empty((edges if slopes else 0, radial + 2), dtype=torch.float32, device=r.device)
    edge_record_kernel[(max(1, triton.cdiv(edges, BLOCK)),)](
        record, slope, r, row_ptr, row_ptr.shape[0] - 1, edges, sizes.cutoff,
        RADIAL=radial, COLUMNS=triton.next_power_of_2(radial + 1), GAUSSIAN=sizes.basis == "gaussian", SLOPES=slopes,
        BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return record, slope


def edge_records_plain(r: Tensor, sizes: Sizes, *, slopes: bool = True) -> tuple[Tensor, Tensor]:
    """The same in plain PyTorch, in the dtype of r, for every place."""
    d = r.norm(dim=1, keepdim=True)
    n = torch.arange(sizes.radial, dtype=r.dtype, device=r.device)
    if sizes.basis == "gaussian":
        width = sizes.cutoff / (sizes.radial - 1)
        t = d / width - n
        phi = torch.exp(-0.5 * t * t)
        dphi = -phi * t / width
    else:
        w = (n + 1) * (torch.pi / sizes.cutoff)
        phi = torch.sin(w * d) / d
        dphi = (w * torch.cos(w * d) - phi) / d
    inside = d < sizes.cutoff
    half = d * (0.5 * torch.pi / sizes.cutoff)
    f = torch.cos(half) ** 2 * inside
    df = -(torch.pi / sizes.cutoff) * torch.cos(half) * torch.sin(half) * inside
    record = torch.cat((phi * f, f, r / d), dim=1)
    slope = torch.cat((dphi * f + phi * df, df, 1 / d), dim=1)
    return record, slope if slopes else slope[:0]


@triton.jit
def sin_cos_half_turns(share, times):
    """sin and cos of pi * share * times. The library's functions carry a slow path for huge angles through the whole kernel.

    The whole half turns are taken off with one rounding; sin and cos of half the rest, at most pi / 4, are Taylor sums to
    3e-10, and the double-angle formulas give those of the rest.
    """
    whole = tl.floor(share * times + 0.5)
    x = 1.5707963267948966 * tl.fma(share + 0.0 * times, times + 0.0 * share, -whole)
    x2 = x * x
    s = x * (1.0 + x2 * (-1.0 / 6 + x2 * (1.0 / 120 + x2 * (-1.0 / 5040 + x2 * (1.0 / 362880)))))
    c = 1.0 + x2 * (-0.5 + x2 * (1.0 / 24 + x2 * (-1.0 / 720 + x2 * (1.0 / 40320 - x2 * (1.0 / 3628800)))))
    # an odd number of half turns changes both signs
    sign = 1.0 - 2.0 * (whole - 2.0 * tl.floor(0.5 * whole))
    return sign * 2.0 * s * c, sign * (1.0 - 2.0 * s * s)


@triton.jit
def evaluate_radial(d, inverse, n, cutoff, RADIAL: tl.constexpr, GAUSSIAN: tl.constexpr):
    """phi_n f and its slope at the distances d (B,), for n (1, N) below RADIAL; f and its slope where n is RADIAL."""
    share = d / cutoff
    s, c = sin_cos_half_turns(share, tl.full(d.shape, 0.5, tl.float32))
    c = tl.where(d < cutoff, c, 0.0)
    f = (c * c)[:, None]
    df = ((-3.141592653589793 / cutoff) * c * s)[:, None]
    if GAUSSIAN:
        width = cutoff / (RADIAL - 1)
        t = d[:, None] * (1.0 / width) - n.to(tl.float32)
        phi = tl.exp(-0.5 * t * t)
        dphi = phi * t * (-1.0 / width)
    else:
        number = (n + 1).to(tl.float32)
        s, c = sin_cos_half_turns(share[:, None], number)
        phi = s * inverse[:, None]
        dphi = (number * (3.141592653589793 / cutoff) * c - phi) * inverse[:, None]
    return tl.where(n == RADIAL, f, phi * f), tl.where(n == RADIAL, df, dphi * f + phi * df)


@triton.jit
def load_vector(r, e, valid):
    """x, y, z and the length of the edges e."""
    x = tl.load(r + e * 3, mask=valid, other=1.0)
    y = tl.load(r + e * 3 + 1, mask=valid, other=1.0)
    z = tl.load(r + e * 3 + 2, mask=valid, other=1.0)
    return x, y, z, tl.sqrt_rn(x * x + y * y + z * z)


@triton.jit(do_not_specialize=["atoms", "edges"])
def edge_record_kernel(
    record, slope, r, row_ptr, atoms, edges, cutoff,
    RADIAL: tl.constexpr, COLUMNS: tl.constexpr, GAUSSIAN: tl.constexpr, SLOPES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK edges a program."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = e < tl.minimum(tl.load(row_ptr + atoms), edges)
    x, y, z, d = load_vector(r, e, valid)
    inverse = 1.0 / d
    n = tl.arange(0, COLUMNS)[None, :]
    number, steep = evaluate_radial(d, inverse, n, cutoff, RADIAL, GAUSSIAN)
    column = valid[:, None] & (n <= RADIAL)
    tl.store(record + e[:, None] * (RADIAL + 4) + n, number, mask=column)
    tail = record + e * (RADIAL + 4) + RADIAL
    tl.store(tail + 1, x * inverse, mask=valid)
    tl.store(tail + 2, y * inverse, mask=valid)
    tl.store(tail + 3, z * inverse, mask=valid)
    if SLOPES:
        tl.store(slope + e[:, None] * (RADIAL + 2) + n, steep, mask=column)
        tl.store(slope + e * (RADIAL + 2) + RADIAL + 1, inverse, mask=valid)
