"""The message of `message.py` with its filter from tensor cores, a tile of edges at a time.

    q_i  += sum_j W_q x_jq            mu_ik += sum_j (W_R x_jR) u_ijk + (W_mu x_jmu) mu_jk            W: a product of tiles, `tiles.py`

A program owns some receivers; each of its warps has WIDTH features, their filter in registers, and waits for no other. The warps of a
program read the same records at about the same time, from the first-level cache. Sums are kept for each place in a tile and added up
at the end of the row, in a fixed order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.painn.kernels.launches import RowLaunch, check_launch
from phasewise_studies.painn.kernels.split import Split
from phasewise_studies.painn.kernels.tiles import (
    choose_three,
    for_features,
    lay_out,
    load_filters,
    load_tile,
    read_edges,
    read_some,
    sum_four,
    tile_edges,
    tile_features,
    write_some,
)

# in ascending order of the atoms that they are for, and from how many on the next one is: a row for each program spreads few of them
FORWARD_TILES = (
    RowLaunch(rows=1, warps=2, tile=8), RowLaunch(block=32, tile=8),
    RowLaunch(warps=2, tile=8), RowLaunch(block=128, rows=1, warps=4, tile=8),
)  # fmt: skip
FORWARD_TILE_LIMITS = (4096,)


def message_by_tiles(
    q: Tensor, mu: Tensor | None, x: Tensor, split: Split, row_ptr: Tensor, j: Tensor, launch: RowLaunch
) -> tuple[Tensor, Tensor]:
    """q (A, F) and mu (A, 3, F) after the message, as `message.message` gives them; needs a GPU.

    split: edges and filter of one layer as halves. launch: one of FORWARD_TILES.
    """
    (atoms, features), records, filters = q.shape, split.records, split.filters
    check_launch(launch, features)
    q_out = torch.empty_like(q)
    mu_out = torch.empty((atoms, 3, features), dtype=q.dtype, device=q.device)
    if atoms:
        # without mu, its place in the call is taken by q and never read; one stage, since tiles go to registers, not to shared memory
        message_tile_kernel[(features // launch.block * triton.cdiv(atoms, launch.rows),)](
            q_out, mu_out, q.contiguous(), q if mu is None else mu.contiguous(), x, records.numbers, records.ends, row_ptr, j,
            filters.halves, filters.unit, atoms, j.shape[0], launch.rows, x.stride(0),
            DEPTH=records.numbers.shape[1], FEATURES=features, WIDTH=launch.summed, WARPS=launch.warps, EDGES=launch.tile,
            HAS_MU=mu is not None, num_warps=launch.warps, num_stages=1,
        )  # fmt: skip
    return q_out, mu_out


@triton.jit(do_not_specialize=["atoms", "edges", "rows"], do_not_specialize_on_alignment=["unit"])
def message_tile_kernel(
    q_out, mu_out, q, mu, x, numbers, ends, row_ptr, j, filters, unit, atoms, edges, rows, stride_x,
    DEPTH: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr, WARPS: tl.constexpr, EDGES: tl.constexpr,
    HAS_MU: tl.constexpr,
):  # fmt: skip
    """`rows` receivers, WARPS * WIDTH features."""
    # the blocks of features of the same rows come one after the other: they read the same records
    BLOCKS: tl.constexpr = FEATURES // (WARPS * WIDTH)
    begin = tl.program_id(0) % BLOCKS * (WARPS * WIDTH)
    first = tl.program_id(0) // BLOCKS * rows
    # offsets are 64 bits wide; loop counters are plain ints in the interpreter, so they are added to this
    wide = tl.full((), 0, tl.int64)
    f = tile_features(begin, WARPS, WIDTH)
    filter_q, filter_r, filter_m = load_filters(filters, begin, FEATURES, WARPS, WIDTH, DEPTH, HAS_MU)
    scale = tl.load(unit)
    which = tile_edges(8)
    last = tl.minimum(first + rows, atoms)
    start = tl.load(row_ptr + first)
    end = tl.load(row_ptr + first + 1)
    # what stands along the edges is read a tile ahead, from the next row behind the last tile of a row
    sender, record, u_x, u_y, u_z, _ = read_edges(j, ends, numbers, start, end, edges, WARPS, DEPTH, EDGES)
    for row in range(first, last):
        following = tl.load(row_ptr + tl.minimum(row + 2, atoms))
        sum_q = tl.zeros((WARPS, WIDTH, EDGES), tl.float32)
        sum_x, sum_y, sum_z = sum_q, sum_q, sum_q
        for e0 in range(start, end, EDGES):
            at = x + sender.to(tl.int64) * stride_x + f
            from_q = load_tile(at)
            from_r = load_tile(at + FEATURES)
            if HAS_MU:
                from_m = load_tile(at + 2 * FEATURES)
                at = mu + sender.to(tl.int64) * (3 * FEATURES) + f
                from_x = load_tile(at)
                from_y = load_tile(at + FEATURES)
                from_z = load_tile(at + 2 * FEATURES)
            more = e0 + EDGES < end
            e1, limit = tl.where(more, e0 + EDGES, end), tl.where(more, end, following)
            sender, next_record, v_x, v_y, v_z, _ = read_edges(j, ends, numbers, e1, limit, edges, WARPS, DEPTH, EDGES)
            sum_q += tl.dot(filter_q, record) * from_q
            m_r = tl.dot(filter_r, record) * from_r
            sum_x += m_r * for_features(u_x, WIDTH)
            sum_y += m_r * for_features(u_y, WIDTH)
            sum_z += m_r * for_features(u_z, WIDTH)
            if HAS_MU:
                m_m = tl.dot(filter_m, record) * from_m
                sum_x += m_m * from_x
                sum_y += m_m * from_y
                sum_z += m_m * from_z
            record, u_x, u_y, u_z = next_record, v_x, v_y, v_z
        if start == end:
            sender, record, u_x, u_y, u_z, _ = read_edges(j, ends, numbers, end, following, edges, WARPS, DEPTH, EDGES)
        start, end = end, following
        # (warp, feature, edge) over edges
        sum_q, sum_x, sum_y, sum_z = tl.reduce((sum_q, sum_x, sum_y, sum_z), 2, sum_four)
        # the three components take the places of three edges
        total = choose_three(
            tl.arange(0, 8)[None, None, :],
            sum_x[:, :, None] * scale,
            sum_y[:, :, None] * scale,
            sum_z[:, :, None] * scale,
        )
        here = (wide + row) * (3 * FEATURES) + which * FEATURES + f
        total = lay_out(total)
        if HAS_MU:
            total += read_some(mu + here, which < 3)
        write_some(mu_out + here, total, which < 3)
        total = lay_out(tl.broadcast_to(sum_q[:, :, None] * scale, (WARPS, WIDTH, 8)))
        here = (wide + row) * FEATURES + which * 0 + f
        write_some(q_out + here, read_some(q + here, which == 0) + total, which == 0)
