"""Message passing, forward: filter, gather and segment sum in one pass over each receiver's row.

    W_ij    = sum_n (phi_n f)(d_ij) Wf_n + f(d_ij) bf                                (3F: parts q, R, mu)
    q_i  += sum_j W_q x_jq            mu_ik += sum_j (W_R x_jR) u_ijk + (W_mu x_jmu) mu_jk

A program owns ROWS receivers and BLOCK features. Its slice of the filter, 3 (K + 1) values a feature, stays in registers
while it walks its rows: nothing of the size of an edge times a feature is ever written. Sums run in the order of the
row, one program for each sum: no atomics, the same bits at every run.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.launches import RowLaunch, check_launch, choose_launch
from phasewise_studies.painn.kernels.row_reads import (
    anew,
    contract,
    find_records,
    load_direction,
    load_filter,
    load_neighbours,
    load_pairs,
    look_up,
    stream_filter,
)

# in ascending order of the atoms that they are for: many programs for few, then more edges in flight
FORWARD_LAUNCHES = (RowLaunch(block=32, rows=1, unroll=4), RowLaunch(rows=1, unroll=4, streamed=True))
# from so many receivers on, a row of its own for each fills the multiprocessors with blocks of 64 features too
FORWARD_LIMITS = (1024,)


def pack_filter(weight: Tensor, bias: Tensor, layers: int) -> Tensor:
    """Filter weights (L * 3F, K) and biases (L * 3F,) as (L, K + 1, 3F): the bias is the last row of its layer."""
    rows = torch.cat((weight, bias[:, None]), dim=1)
    return rows.view(layers, -1, rows.shape[1]).transpose(1, 2).contiguous()


def message(
    q: Tensor, mu: Tensor | None, x: Tensor, record: Tensor, row_ptr: Tensor, j: Tensor, filters: Tensor,
    launch: RowLaunch | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q (A, F) and mu (A, 3, F) after the message, new tensors.

    Args:
        q: (A, F).
        mu: (A, 3, F), or None for the first layer, where mu is 0 and its part of the filter is not evaluated.
        x: (A, 3F), or at least its first 2F columns where mu is None; rows contiguous.
        record: (E, K + 4) of `radial.edge_records`, or (E, 8) of `table.table_records`.
        row_ptr, j: (A + 1,) and (E,) int32, the list by receiver.
        filters: (K + 1, 3F), one layer of `pack_filter`; or the table of one layer, (2 knots, 3F), of `table.build_table`.
        launch: one of FORWARD_LAUNCHES; by default chosen by the number of atoms.
    """
    if not has_kernel(q.device, q.dtype):
        return message_plain(q, mu, x, record, row_ptr, j, filters)
    atoms, features = q.shape
    launch = launch or choose_launch(FORWARD_LAUNCHES, FORWARD_LIMITS, atoms)
    check_launch(launch, features)
    assert x.stride(1) == 1 and filters.is_contiguous() and record.is_contiguous()
    q_out = torch.empty_like(q)
    mu_out = torch.empty((atoms, 3, features), dtype=q.dtype, device=q.device)
    tabulated = is_table(record, filters)
    if atoms:
        # without mu, its place in the call is taken by q and never read
        message_kernel[(triton.cdiv(atoms, launch.rows), features // launch.block)](
            q_out, mu_out, q.contiguous(), q if mu is None else mu.contiguous(), x, record.view(torch.int64),
            row_ptr, j, filters, atoms, x.stride(0),
            COUNT=basis_size(record, filters), TABLE=tabulated, FEATURES=features, BLOCK=launch.block, ROWS=launch.rows, UNROLL=launch.unroll,
            STREAMED=launch.streamed and not tabulated, HAS_MU=mu is not None, num_warps=launch.warps,
        )  # fmt: skip
    return q_out, mu_out


def is_table(record: Tensor, filters: Tensor) -> bool:
    """Whether the filter is one of `table.build_table`; else it has a row for each number of a record but u.

    A record alone does not tell: that of four radial functions is as long as that of a table, which has an even number of rows, not 5.
    """
    return filters.shape[0] != record.shape[1] - 3


def basis_size(record: Tensor, filters: Tensor) -> int:
    """How many rows of the filter an edge combines: K + 1, or four neighbours in a table."""
    return 4 if is_table(record, filters) else record.shape[1] - 3


def receivers(row_ptr: Tensor, edges: int) -> Tensor:
    """Receiver of each place, (E,); places behind the last row belong to nobody and read A."""
    places = torch.arange(edges, dtype=row_ptr.dtype, device=row_ptr.device)
    return torch.searchsorted(row_ptr[1:].contiguous(), places, right=True)


def message_plain(
    q: Tensor, mu: Tensor | None, x: Tensor, record: Tensor, row_ptr: Tensor, j: Tensor, filters: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in plain PyTorch, any floating dtype; waits for the device to learn how many edges there are."""
    (atoms, features), edges = q.shape, int(row_ptr[-1])
    i, j = receivers(row_ptr, edges), j[:edges].long()
    w, u = combine_plain(record[:edges], record[:edges], filters), direction_plain(record[:edges], filters)
    parts = 2 if mu is None else 3
    m = (w[:, : parts * features] * x[j, : parts * features]).split(features, dim=1)
    vector = u[:, :, None] * m[1][:, None]
    if mu is not None:
        vector = vector + mu[j] * m[2][:, None]
    start = q.new_zeros(atoms, 3, features) if mu is None else mu
    return q.index_add(0, i, m[0]), start.index_add(0, i, vector)


def combine_plain(numbers: Tensor, record: Tensor, filters: Tensor) -> Tensor:
    """sum_n numbers_n filters_n for records or slopes, (E, 3F)."""
    count = basis_size(record, filters)
    if not is_table(record, filters):
        return numbers[:, :count] @ filters
    row = record[:, 7].long()
    return sum(numbers[:, n, None] * filters[row + n] for n in range(count))


def direction_plain(record: Tensor, filters: Tensor) -> Tensor:
    """u, (E, 3)."""
    return record[:, basis_size(record, filters) :][:, :3]


@triton.jit(do_not_specialize=["atoms"])
def message_kernel(
    q_out, mu_out, q, mu, x, record, row_ptr, j, filters, atoms, stride_x,
    COUNT: tl.constexpr, TABLE: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    UNROLL: tl.constexpr, STREAMED: tl.constexpr, HAS_MU: tl.constexpr,
):  # fmt: skip
    """ROWS receivers, BLOCK features."""
    PAIRS: tl.constexpr = (COUNT + 4) // 2
    first = tl.program_id(0) * ROWS
    # offsets are 64 bits wide; loop counters are plain ints in the interpreter, so they are added to this
    wide = tl.full((), 0, tl.int64)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    if not TABLE and not STREAMED:
        w_q, w_r, w_m = load_filter(filters + f, COUNT, FEATURES, HAS_MU)
    for row in range(first, tl.minimum(first + ROWS, atoms)):
        start = tl.load(row_ptr + row)
        end = tl.load(row_ptr + row + 1)
        sum_q = tl.zeros((BLOCK,), tl.float32)
        sum_x, sum_y, sum_z = sum_q, sum_q, sum_q
        for e0 in range(start, end, UNROLL):
            senders = load_neighbours(j, e0, end, row, UNROLL, UNROLL > 1)
            # all loads of the iteration come first, so that they are in flight together
            bases = find_records(record, e0, end, PAIRS, UNROLL)
            numbers, from_q, from_r, from_m, from_x, from_y, from_z = (), (), (), (), (), (), ()
            for step in tl.static_range(UNROLL):
                # an edge past the end adds zeros
                valid = e0 + step + tl.zeros((BLOCK,), tl.int32) < end
                if not STREAMED:
                    numbers += (load_pairs(bases[step], PAIRS),)
                sender = senders[step]
                at = x + sender * stride_x + f
                from_q += (tl.load(at, mask=valid, other=0.0),)
                from_r += (tl.load(at + FEATURES, mask=valid, other=0.0),)
                if HAS_MU:
                    from_m += (tl.load(at + 2 * FEATURES, mask=valid, other=0.0),)
                    at = mu + sender * (3 * FEATURES) + f
                    from_x += (tl.load(at),)
                    from_y += (tl.load(at + FEATURES),)
                    from_z += (tl.load(at + 2 * FEATURES),)
            if STREAMED:
                filter_q, filter_r, filter_m = stream_filter(
                    bases, anew(filters + f, e0, FEATURES), COUNT, FEATURES, BLOCK, UNROLL, HAS_MU
                )
            for step in tl.static_range(UNROLL):
                if STREAMED:
                    v_q, v_r, v_m = filter_q[step], filter_r[step], filter_m[step]
                    u = load_direction(bases[step], COUNT)
                else:
                    if TABLE:
                        w_q, w_r, w_m = look_up(filters, f, numbers[step], COUNT, FEATURES, HAS_MU)
                    v_q, v_r = contract(numbers[step], w_q, COUNT), contract(numbers[step], w_r, COUNT)
                    v_m = contract(numbers[step], w_m, COUNT) if HAS_MU else v_r
                    u = (numbers[step][COUNT], numbers[step][COUNT + 1], numbers[step][COUNT + 2])
                sum_q += v_q * from_q[step]
                m_r = v_r * from_r[step]
                sum_x += m_r * u[0]
                sum_y += m_r * u[1]
                sum_z += m_r * u[2]
                if HAS_MU:
                    m_m = v_m * from_m[step]
                    sum_x += m_m * from_x[step]
                    sum_y += m_m * from_y[step]
                    sum_z += m_m * from_z[step]
        here = (wide + row) * FEATURES + f
        tl.store(q_out + here, tl.load(q + here) + sum_q)
        here = (wide + row) * (3 * FEATURES) + f
        if HAS_MU:
            sum_x += tl.load(mu + here)
            sum_y += tl.load(mu + here + FEATURES)
            sum_z += tl.load(mu + here + 2 * FEATURES)
        tl.store(mu_out + here, sum_x)
        tl.store(mu_out + here + FEATURES, sum_y)
        tl.store(mu_out + here + 2 * FEATURES, sum_z)
