"""The adjoint of the message as in `adjoint.py`, with the filter and its slope from tensor cores, a tile of edges at a time.

What is the same for a row stands before its sums: mubar_a and xbar_mu share one, since n_mu = mubar_i . mu_a; and what is the same for
an edge stands before its sums over features:

    s_k = sum_i W_mu mubar_ik          mubar_ak += x_amu s_k          xbar_a,mu = sum_k mu_ak s_k
    H_k = <W_R x_aR, mubar_ik>         G = <x_a * (n_q, n_R, n_mu), W'>
    p_(a, i) = H / d - (G + H . u / d) u

A program owns some senders; each of its warps has WIDTH features, their filter in registers, and waits for no other: it leaves its own
part of p.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.painn.kernels.launches import RowLaunch, check_launch
from phasewise_studies.painn.kernels.row_reads import anew
from phasewise_studies.painn.kernels.split import Split
from phasewise_studies.painn.kernels.tiles import (
    add_own,
    choose_three,
    factor_edges,
    for_features,
    lay_out,
    load_filters,
    load_numbers,
    load_row,
    load_tile,
    of_lanes,
    read_edges,
    read_some,
    sum_four,
    sum_three,
    tile_edges,
    tile_features,
    write_some,
)

# in ascending order of the atoms that they are for, and from how many on the next one is
ADJOINT_TILES = (
    RowLaunch(rows=1, warps=2, tile=8), RowLaunch(warps=2, tile=8),
    RowLaunch(block=128, warps=4, tile=8), RowLaunch(block=128, rows=1, warps=4, tile=8),
)  # fmt: skip
ADJOINT_TILE_LIMITS = (4096,)


def adjoint_by_tiles(
    qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor, split: Split, row_ptr: Tensor, j: Tensor, pulls: Tensor,
    *, add: bool, launch: RowLaunch,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Gradients of the message's q, mu and x, and p in `pulls`, as `adjoint.message_adjoint` gives them; needs a GPU.

    split: edges, slopes included, and filter of one layer as halves. launch: one of ADJOINT_TILES, that of `new_pulls`.
    """
    (atoms, features), records, filters, first = qbar.shape, split.records, split.filters, mu is None
    check_launch(launch, features)
    assert pulls.is_contiguous() and pulls.shape[0] == features // launch.summed
    mubar = mubar.contiguous()
    # what the first layer has not is never touched
    xbar = qbar if first else torch.empty((atoms, 3 * features), dtype=x.dtype, device=x.device)
    mubar_out = mubar if first else torch.empty_like(mubar)
    if atoms:
        # one stage, since tiles go to registers, not to shared memory
        adjoint_tile_kernel[(features // launch.block * triton.cdiv(atoms, launch.rows),)](
            xbar, mubar_out, pulls, qbar, mubar, qbar if mu is None else mu.contiguous(), x, records.numbers, records.slopes,
            records.ends, row_ptr, j, filters.halves, filters.unit, atoms, j.shape[0], launch.rows, x.stride(0), qbar.stride(0),
            DEPTH=records.numbers.shape[1], FEATURES=features, WIDTH=launch.summed, WARPS=launch.warps, EDGES=launch.tile,
            HAS_MU=mu is not None, ADD=add, num_warps=launch.warps, num_stages=1,
        )  # fmt: skip
    return None if first else (xbar, mubar_out)


@triton.jit
def write_pulls(pulls, p_x, p_y, p_z, e, end, WARPS: tl.constexpr, ADD: tl.constexpr):
    """p of a tile, (WARPS, EDGES) each: of the lanes of an edge, three write one component each."""
    EDGES: tl.constexpr = p_x.shape[1]
    lane = tl.arange(0, 8)[None, :, None]
    p = choose_three(lane, p_x[:, None, :], p_y[:, None, :], p_z[:, None, :])
    # axes as in `tiles.py`: (warp, l, edge) -> (warp, l, eight, k, pair, own 1) -> (k, l, warp, eight, pair, own 1)
    p = tl.permute(tl.reshape(p, (WARPS, 8, EDGES // 8, 4, 2, 1)), (3, 1, 0, 2, 4, 5))
    lane = tl.arange(0, 8)[None, :, None, None, None, None]
    at = tl.broadcast_to(pulls + e * 3 + tl.minimum(lane, 2), (4, 8, WARPS, EDGES // 8, 2, 1))
    valid = (e < end) & (lane < 3)
    if ADD:
        p += read_some(at, valid)
    write_some(at, p, valid)


@triton.jit(do_not_specialize=["atoms", "edges", "rows"], do_not_specialize_on_alignment=["unit"])
def adjoint_tile_kernel(
    xbar, mubar_out, pulls, qbar, mubar, mu, x, numbers, slopes, ends, row_ptr, j, filters, unit, atoms, edges, rows, stride_x, stride_q,
    DEPTH: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr, WARPS: tl.constexpr, EDGES: tl.constexpr,
    HAS_MU: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """`rows` senders, WARPS * WIDTH features."""
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
    part = tl.program_id(0) % BLOCKS * WARPS + tl.arange(0, WARPS)[None, None, :, None, None, None]
    pulls += part.to(tl.int64) * edges * 3
    for row in range(first, tl.minimum(first + rows, atoms)):
        start = tl.load(row_ptr + row)
        end = tl.load(row_ptr + row + 1)
        here = x + (wide + row) * stride_x + f
        x_q = load_row(here, EDGES) * scale
        x_r = load_row(here + FEATURES, EDGES) * scale
        sum_q = tl.zeros((WARPS, WIDTH, 4), tl.float32)
        if HAS_MU:
            sum_r, sum_x, sum_y, sum_z = sum_q, sum_q, sum_q, sum_q
            x_m = load_row(here + 2 * FEATURES, EDGES) * scale
            here = mu + (wide + row) * (3 * FEATURES) + f
            x_mu_x = x_m * load_row(here, EDGES)
            x_mu_y = x_m * load_row(here + FEATURES, EDGES)
            x_mu_z = x_m * load_row(here + 2 * FEATURES, EDGES)
        for e0 in range(start, end, EDGES):
            receiver, record, u_x, u_y, u_z, inverse = read_edges(j, ends, numbers, e0, end, edges, WARPS, DEPTH, EDGES)
            from_q = load_tile(qbar + receiver.to(tl.int64) * stride_q + f)
            at = mubar + receiver.to(tl.int64) * (3 * FEATURES) + f
            from_x = load_tile(at)
            from_y = load_tile(at + FEATURES)
            from_z = load_tile(at + 2 * FEATURES)
            # what the slopes of an edge past the end are goes nowhere
            e = tl.minimum(e0 + factor_edges(EDGES), end - 1)
            slope = load_numbers(slopes, e.to(tl.int64), WARPS, DEPTH)
            # -n_R
            along = (
                from_x * for_features(u_x, WIDTH)
                + from_y * for_features(u_y, WIDTH)
                + from_z * for_features(u_z, WIDTH)
            )
            w_r = tl.dot(filter_r, record)
            g = tl.dot(filter_q, slope) * (x_q * from_q) - tl.dot(filter_r, slope) * (x_r * along)
            if HAS_MU:
                g += tl.dot(filter_m, slope) * (from_x * x_mu_x + from_y * x_mu_y + from_z * x_mu_z)
                sum_q = add_own(sum_q, tl.dot(filter_q, record) * from_q)
                sum_r = add_own(sum_r, w_r * along)
                w_m = tl.dot(filter_m, record)
                sum_x = add_own(sum_x, w_m * from_x)
                sum_y = add_own(sum_y, w_m * from_y)
                sum_z = add_own(sum_z, w_m * from_z)
            h = w_r * x_r
            # what one lane has is added up first, then p is linear in the sums:
            # (warp, own, l, edge) over own -> (warp, l, edge), and over l -> (warp, edge)
            g, h_x, h_y, h_z = tl.reduce(
                (of_lanes(g), of_lanes(h * from_x), of_lanes(h * from_y), of_lanes(h * from_z)), 1, sum_four
            )
            h_x, h_y, h_z = h_x * inverse, h_y * inverse, h_z * inverse
            g += h_x * u_x + h_y * u_y + h_z * u_z
            p_x, p_y, p_z = tl.reduce((h_x - g * u_x, h_y - g * u_y, h_z - g * u_z), 1, sum_three)
            write_pulls(pulls, p_x, p_y, p_z, wide + e0 + tile_edges(EDGES), end, WARPS, ADD)
        if HAS_MU:
            # (warp, feature, k) over k
            sum_x, sum_y, sum_z, sum_r = tl.reduce((sum_x, sum_y, sum_z, sum_r), 2, sum_four)
            sum_q = tl.sum(sum_q, 2)[:, :, None]
            sum_x, sum_y, sum_z = sum_x[:, :, None] * scale, sum_y[:, :, None] * scale, sum_z[:, :, None] * scale
            # read once more: registers are for the loop
            f_again = anew(f, end, FEATURES)
            x_m = load_row(x + (wide + row) * stride_x + 2 * FEATURES + f_again, 8)
            here = mu + (wide + row) * (3 * FEATURES) + f_again
            sum_m = (
                load_row(here, 8) * sum_x
                + load_row(here + FEATURES, 8) * sum_y
                + load_row(here + 2 * FEATURES, 8) * sum_z
            )
            # three parts, and three components, take the places of three edges
            number = tl.arange(0, 8)[None, None, :]
            here = (wide + row) * (3 * FEATURES) + which * FEATURES + f_again
            total = lay_out(choose_three(number, sum_q * scale, -(sum_r[:, :, None] * scale), sum_m))
            write_some(xbar + here, total, which < 3)
            total = lay_out(choose_three(number, x_m * sum_x, x_m * sum_y, x_m * sum_z))
            write_some(mubar_out + here, read_some(mubar + here, which < 3) + total, which < 3)
