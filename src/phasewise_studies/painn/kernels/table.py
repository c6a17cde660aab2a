"""The filter as a table over the distance: cubic Hermite between exact knots, instead of K + 1 multiply-adds a value.

A row for W f and a row for h (W f)' at each knot, so that an edge in interval k combines the four rows 2k .. 2k + 3 with

    (1 + 2t)(1 - t)^2,  t (1 - t)^2,  t^2 (3 - 2t),  t^2 (t - 1)            t = (d - knot_k) / h

and the derivative combines the same four rows with the derivatives of these over h: forces stay exactly the gradient of the
tabulated energy. The message kernels take such records as they take the others.

Counted for F = 128, an edge and layer: 4 x 3F multiply-adds instead of 21 x 3F, and 6 kB of table instead of none, from L2:
1.5 MB a layer at 512 knots do not stay in L1. At 22 B a clock and multiprocessor that is 280 clocks, the multiply-adds that it saves
are 50 forward and 100 adjoint: on a GPU with this much float32 the table is expected to lose.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.lists import load_vector
from phasewise_studies.painn.kernels.radial import edge_records_plain
from phasewise_studies.painn.layout import Sizes

# no bond is shorter; closer pairs get the first interval's cubic
FIRST = 0.6
# numbers of a record: four weights, the direction, the row
TABLE_RECORD = 8
BLOCK = 128


def build_table(filters: Tensor, sizes: Sizes, knots: int) -> Tensor:
    """(L, 2 knots, 3F) from `message.pack_filter`, computed in float64."""
    d = torch.linspace(FIRST, sizes.cutoff, knots, dtype=torch.float64, device=filters.device)
    record, slope = edge_records_plain(torch.stack((d, 0 * d, 0 * d), dim=1), sizes)
    step = (sizes.cutoff - FIRST) / (knots - 1)
    numbers = torch.stack((record[:, :-3], step * slope[:, :-1]), dim=1)
    # an einsum leaves its result in an order of its own, and the kernels read each layer as it lies
    return torch.einsum("ksn,lnf->lksf", numbers, filters.double()).flatten(1, 2).to(filters.dtype).contiguous()


def table_records(r: Tensor, row_ptr: Tensor, sizes: Sizes, knots: int) -> tuple[Tensor, Tensor]:
    """Records (E, 8): four weights, u, the number of the first row; slopes (E, 6): four slopes, 1/d, nothing."""
    edges = r.shape[0]
    step = (sizes.cutoff - FIRST) / (knots - 1)
    if not has_kernel(r.device, r.dtype):
        return table_records_plain(r, sizes, knots)
    record = torch.empty((edges, TABLE_RECORD), dtype=torch.float32, device=r.device)
    slope = torch.empty((edges, 6), dtype=torch.float32, device=r.device)
    table_record_kernel[(max(1, triton.cdiv(edges, BLOCK)),)](
        record, slope, r, row_ptr, row_ptr.shape[0] - 1, edges, sizes.cutoff, FIRST, 1.0 / step, knots - 2,
        BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return record, slope


def table_records_plain(r: Tensor, sizes: Sizes, knots: int) -> tuple[Tensor, Tensor]:
    """The same in plain PyTorch, any floating dtype."""
    step = (sizes.cutoff - FIRST) / (knots - 1)
    d = r.norm(dim=1, keepdim=True)
    place = (d - FIRST) / step
    k = place.floor().clamp(0, knots - 2)
    t = place - k
    inside = (d < sizes.cutoff).to(r.dtype)
    weights = torch.cat(((1 + 2 * t) * (1 - t) ** 2, t * (1 - t) ** 2, t * t * (3 - 2 * t), t * t * (t - 1)), dim=1)
    slopes = torch.cat((6 * t * (t - 1), (1 - t) * (1 - 3 * t), 6 * t * (1 - t), t * (3 * t - 2)), dim=1) / step
    return torch.cat((weights * inside, r / d, 2 * k), dim=1), torch.cat((slopes * inside, 1 / d, 0 * d), dim=1)


@triton.jit(do_not_specialize=["atoms", "edges", "last"])
def table_record_kernel(
    record, slope, r, row_ptr, atoms, edges, cutoff, first, per_step, last, BLOCK: tl.constexpr
):  # fmt: skip
    """BLOCK edges a program; `last` is the number of the last interval."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = e < tl.minimum(tl.load(row_ptr + atoms), edges)
    e = e.to(tl.int64)
    x, y, z = load_vector(r, e, valid)
    d = tl.where(valid, tl.sqrt_rn(x * x + y * y + z * z), 1.0)
    inverse = 1.0 / d
    place = (d - first) * per_step
    k = tl.minimum(tl.maximum(tl.floor(place), 0.0), last * 1.0)
    t = place - k
    here = tl.where(d < cutoff, 1.0, 0.0)
    at = record + e * 8
    tl.store(at, (1 + 2 * t) * (1 - t) * (1 - t) * here, mask=valid)
    tl.store(at + 1, t * (1 - t) * (1 - t) * here, mask=valid)
    tl.store(at + 2, t * t * (3 - 2 * t) * here, mask=valid)
    tl.store(at + 3, t * t * (t - 1) * here, mask=valid)
    tl.store(at + 4, x * inverse, mask=valid)
    tl.store(at + 5, y * inverse, mask=valid)
    tl.store(at + 6, z * inverse, mask=valid)
    tl.store(at + 7, 2 * k, mask=valid)
    at = slope + e * 6
    here *= per_step
    tl.store(at, 6 * t * (t - 1) * here, mask=valid)
    tl.store(at + 1, (1 - t) * (1 - 3 * t) * here, mask=valid)
    tl.store(at + 2, 6 * t * (1 - t) * here, mask=valid)
    tl.store(at + 3, t * (3 * t - 2) * here, mask=valid)
    tl.store(at + 4, inverse, mask=valid)
    tl.store(at + 5, tl.zeros_like(inverse), mask=valid)
