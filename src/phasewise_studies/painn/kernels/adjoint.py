"""The adjoint of the message, gather-only: each program walks the row of a *sender*.

The list is symmetric, so the edges that a sends along, (i <- a), are the row of a read backwards: W(d) is the same and the
direction is -u. With r' = R_a - R_i = -r, and qbar = dE/dq and mubar = dE/dmu of the receivers i:

    n_q = qbar_i      n_R = -u . mubar_i      n_mu = mubar_i . mu_a                               (what W * x_a is paired with)
    xbar_a   += W * (n_q, n_R, n_mu)
    mubar_a  += (W_mu x_a,mu) mubar_i                                                 (besides mubar_a itself: mu += is a sum)
    p_(a, i)  = dE/dr' = -(g - h n_R / d) u + (h / d) mubar_i,  g = <x_a * (n_q, n_R, n_mu), W'>,  h = W_R x_aR

where <> and the h terms are summed over features. Then F_a = sum_e (p_rev(e) - p_e) over the row of a (`forces.py`).
The gather is 4F values an edge (qbar_i, mubar_i); x_a and mu_a are read once a row. The radial part of h mubar is taken off
feature by feature, so that 3 sums over features an edge are enough where dbar and ubar would need 4.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.launches import RowLaunch, check_launch, choose_launch
from phasewise_studies.painn.kernels.message import (
    basis_size,
    combine_plain,
    direction_plain,
    is_table,
    receivers,
)
from phasewise_studies.painn.kernels.row_reads import (
    add_scaled,
    anew,
    contract,
    find_records,
    load_direction,
    load_filter,
    load_neighbours,
    load_pairs,
    load_two,
    look_up,
    make_zeros,
)
from phasewise_studies.painn.kernels.tiles import sum_three

# in ascending order of the atoms that they are for
ADJOINT_LAUNCHES = (RowLaunch(block=32, rows=1, unroll=4), RowLaunch())
# fewer senders than this leave multiprocessors idle if a program takes four
ADJOINT_LIMITS = (2048,)


def new_pulls(edges: int, features: int, atoms: int, device: torch.device, launch: RowLaunch | None = None) -> Tensor:
    """Room for p, (features / summed, E, 3): each block of features leaves its own part of the sum."""
    launch = launch or choose_launch(ADJOINT_LAUNCHES, ADJOINT_LIMITS, atoms)
    return torch.empty((max(1, features // launch.summed), edges, 3), dtype=torch.float32, device=device)


def message_adjoint(
    qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor, record: Tensor, slope: Tensor, row_ptr: Tensor, j: Tensor,
    filters: Tensor, pulls: Tensor, *, add: bool, launch: RowLaunch | None = None,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """Gradients (xbar (A, 3F), mubar (A, 3, F)) from those of the message's results; p is written or added to `pulls`.

    Args:
        qbar, mubar: (A, F), rows contiguous, and (A, 3, F): gradients of the message's q and mu.
        mu: the mu that the message read; None for the first layer, which needs nothing but `pulls`: x there depends on
            the element alone. The result is None then.
        x, record, row_ptr, j, filters: as for `message.message`; slope of `radial.edge_records`.
        pulls: of `new_pulls`, with the same launch.
        add: add to what is there (the layers share one sum), or write it.
        launch: one of ADJOINT_LAUNCHES, the same in every call that shares `pulls`; by default chosen by the atoms.
    """
    if not has_kernel(qbar.device, qbar.dtype):
        return message_adjoint_plain(qbar, mubar, mu, x, record, slope, row_ptr, j, filters, pulls, add=add)
    atoms, features = qbar.shape
    launch = launch or choose_launch(ADJOINT_LAUNCHES, ADJOINT_LIMITS, atoms)
    check_launch(launch, features)
    assert (
        x.stride(1) == 1
        and qbar.stride(1) == 1
        and filters.is_contiguous()
        and record.is_contiguous()
        and slope.is_contiguous()
    )
    assert pulls.is_contiguous() and pulls.shape[0] == features // launch.summed
    first = mu is None
    mubar = mubar.contiguous()
    # what the first layer has not is never touched
    xbar = qbar if first else torch.empty((atoms, 3 * features), dtype=x.dtype, device=x.device)
    mubar_out = mubar if first else torch.empty_like(mubar)
    tabulated = is_table(record, filters)
    if atoms:
        message_adjoint_kernel[(triton.cdiv(atoms, launch.rows), features // launch.block)](
            xbar, mubar_out, pulls, qbar, mubar, qbar if first else mu.contiguous(), x, record.view(torch.int64),
            slope.view(torch.int64), row_ptr, j, filters, atoms, pulls.shape[1], x.stride(0), qbar.stride(0),
            COUNT=basis_size(record, filters), TABLE=tabulated, FEATURES=features, BLOCK=launch.block, ROWS=launch.rows,
            UNROLL=launch.unroll, STREAMED=launch.streamed and not tabulated, HAS_MU=not first, ADD=add, num_warps=launch.warps,
        )  # fmt: skip
    return None if first else (xbar, mubar_out)


def message_adjoint_plain(
    qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor, record: Tensor, slope: Tensor, row_ptr: Tensor, j: Tensor,
    filters: Tensor, pulls: Tensor, *, add: bool,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """The same in plain PyTorch, any floating dtype; all of p goes into the first part of `pulls`."""
    features, edges = qbar.shape[1], int(row_ptr[-1])
    a, i = receivers(row_ptr, edges), j[:edges].long()
    parts = 2 if mu is None else 3
    record, slope = record[:edges], slope[:edges]
    count, columns = basis_size(record, filters), slice(0, parts * features)
    u, inverse = direction_plain(record, filters)[:, :, None], slope[:, count, None]
    w, dw = (combine_plain(numbers, record, filters[:, columns]) for numbers in (record, slope))
    m_r = -(u * mubar[i]).sum(1)
    n = torch.cat((qbar[i], m_r) + (() if mu is None else ((mubar[i] * mu[a]).sum(1),)), dim=1)
    g = (x[a, columns] * n * dw).view(edges, parts, features).sum(1)
    h = w[:, features : 2 * features] * x[a, features : 2 * features]
    p = (-(g - h * m_r * inverse)[:, None] * u + (h * inverse)[:, None] * mubar[i]).sum(2)
    if not add:
        pulls.zero_()
    pulls[0, :edges] += p
    if mu is None:
        return None
    xbar = torch.zeros_like(x).index_add(0, a, w * n)
    gate = w[:, 2 * features :] * x[a, 2 * features :]
    return xbar, mubar.index_add(0, a, gate[:, None] * mubar[i])


@triton.jit
def load_inverse(steep, COUNT: tl.constexpr):
    """1/d of one edge: the number behind the first COUNT of its slope."""
    first: tl.constexpr = COUNT // 2
    numbers = load_pairs(steep + first, 1)
    at: tl.constexpr = COUNT - 2 * first
    return numbers[at]


@triton.jit
def stream_both(
    bases, steep, at, COUNT: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
    HAS_MU: tl.constexpr,
):  # fmt: skip
    """The three parts of the filter and of its slope for each edge of an iteration: a row of `at` is read once for all of them."""
    q, r, m = make_zeros(BLOCK, UNROLL), make_zeros(BLOCK, UNROLL), make_zeros(BLOCK, UNROLL)
    d_q, d_r, d_m = q, r, m
    for pair in tl.static_range((COUNT + 1) // 2):
        numbers = load_two(bases, pair, UNROLL)
        changes = load_two(steep, pair, UNROLL)
        for which in tl.static_range(2):
            if 2 * pair + which < COUNT:
                row = at + (2 * pair + which) * (3 * FEATURES)
                one = tl.load(row)
                q, d_q = add_scaled(q, numbers, which, one, UNROLL), add_scaled(d_q, changes, which, one, UNROLL)
                one = tl.load(row + FEATURES)
                r, d_r = add_scaled(r, numbers, which, one, UNROLL), add_scaled(d_r, changes, which, one, UNROLL)
                if HAS_MU:
                    one = tl.load(row + 2 * FEATURES)
                    m, d_m = add_scaled(m, numbers, which, one, UNROLL), add_scaled(d_m, changes, which, one, UNROLL)
    return (q, r, m), (d_q, d_r, d_m)


@triton.jit(do_not_specialize=["atoms", "edges"])
def message_adjoint_kernel(
    xbar, mubar_out, pulls, qbar, mubar, mu, x, record, slope, row_ptr, j, filters, atoms, edges, stride_x, stride_q,
    COUNT: tl.constexpr, TABLE: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    UNROLL: tl.constexpr, STREAMED: tl.constexpr, HAS_MU: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """ROWS senders, BLOCK features."""
    PAIRS: tl.constexpr = (COUNT + 4) // 2
    SLOPES: tl.constexpr = (COUNT + 2) // 2
    first = tl.program_id(0) * ROWS
    # offsets are 64 bits wide; loop counters are plain ints in the interpreter, so they are added to this
    wide = tl.full((), 0, tl.int64)
    f = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pulls += tl.program_id(1).to(tl.int64) * edges * 3
    if not TABLE and not STREAMED:
        w_q, w_r, w_m = load_filter(filters + f, COUNT, FEATURES, HAS_MU)
    for row in range(first, tl.minimum(first + ROWS, atoms)):
        start = tl.load(row_ptr + row)
        end = tl.load(row_ptr + row + 1)
        here = x + (wide + row) * stride_x + f
        x_q = tl.load(here)
        x_r = tl.load(here + FEATURES)
        here = (wide + row) * (3 * FEATURES) + f
        sum_q = tl.zeros((BLOCK,), tl.float32)
        sum_r, sum_m = sum_q, sum_q
        if HAS_MU:
            x_m = tl.load(x + (wide + row) * stride_x + 2 * FEATURES + f)
            mu_x = tl.load(mu + here)
            mu_y = tl.load(mu + here + FEATURES)
            mu_z = tl.load(mu + here + 2 * FEATURES)
            sum_x = tl.load(mubar + here)
            sum_y = tl.load(mubar + here + FEATURES)
            sum_z = tl.load(mubar + here + 2 * FEATURES)
        for e0 in range(start, end, UNROLL):
            others = load_neighbours(j, e0, end, row, UNROLL, UNROLL > 1)
            # all loads of the iteration come before its stores, so that they are in flight together: a load can't be moved before a store
            # that might have written there
            bases, steep = find_records(record, e0, end, PAIRS, UNROLL), find_records(slope, e0, end, SLOPES, UNROLL)
            records, slopes, from_q, from_x, from_y, from_z, before = (), (), (), (), (), (), ()
            for step in tl.static_range(UNROLL):
                e = e0 + step
                # an edge past the end adds zeros
                valid = e < end
                gathers = e + tl.zeros((BLOCK,), tl.int32) < end
                receiver = others[step]
                if not STREAMED:
                    records += (load_pairs(bases[step], PAIRS),)
                    slopes += (load_pairs(steep[step], SLOPES),)
                from_q += (tl.load(qbar + receiver * stride_q + f, mask=gathers, other=0.0),)
                at = mubar + receiver * (3 * FEATURES) + f
                from_x += (tl.load(at, mask=gathers, other=0.0),)
                from_y += (tl.load(at + FEATURES, mask=gathers, other=0.0),)
                from_z += (tl.load(at + 2 * FEATURES, mask=gathers, other=0.0),)
                if ADD:
                    at = pulls + (wide + e) * 3
                    before += (
                        tl.load(at, mask=valid, other=0.0),
                        tl.load(at + 1, mask=valid, other=0.0),
                        tl.load(at + 2, mask=valid, other=0.0),
                    )
            if STREAMED:
                filters_e, slopes_e = stream_both(
                    bases, steep, anew(filters + f, e0, FEATURES), COUNT, FEATURES, BLOCK, UNROLL, HAS_MU
                )
            for step in tl.static_range(UNROLL):
                if STREAMED:
                    v_q, v_r, v_m = filters_e[0][step], filters_e[1][step], filters_e[2][step]
                    d_q, d_r, d_m = slopes_e[0][step], slopes_e[1][step], slopes_e[2][step]
                    u_x, u_y, u_z = load_direction(bases[step], COUNT)
                    inverse = load_inverse(steep[step], COUNT)
                else:
                    if TABLE:
                        w_q, w_r, w_m = look_up(filters, f, records[step], COUNT, FEATURES, HAS_MU)
                    v_q, v_r = contract(records[step], w_q, COUNT), contract(records[step], w_r, COUNT)
                    d_q, d_r = contract(slopes[step], w_q, COUNT), contract(slopes[step], w_r, COUNT)
                    v_m = contract(records[step], w_m, COUNT) if HAS_MU else v_r
                    d_m = contract(slopes[step], w_m, COUNT) if HAS_MU else d_r
                    u_x, u_y, u_z = records[step][COUNT], records[step][COUNT + 1], records[step][COUNT + 2]
                    inverse = slopes[step][COUNT]
                n_r = -(from_x[step] * u_x + from_y[step] * u_y + from_z[step] * u_z)
                g = d_q * (x_q * from_q[step]) + d_r * (x_r * n_r)
                if HAS_MU:
                    n_m = from_x[step] * mu_x + from_y[step] * mu_y + from_z[step] * mu_z
                    g += d_m * (x_m * n_m)
                    sum_q += v_q * from_q[step]
                    sum_r += v_r * n_r
                    sum_m += v_m * n_m
                    gate = v_m * x_m
                    sum_x += gate * from_x[step]
                    sum_y += gate * from_y[step]
                    sum_z += gate * from_z[step]
                h = v_r * x_r * inverse
                along = h * n_r - g
                p_x, p_y, p_z = tl.reduce(
                    (along * u_x + h * from_x[step], along * u_y + h * from_y[step], along * u_z + h * from_z[step]),
                    0, sum_three,
                )  # fmt: skip
                valid = e0 + step < end
                at = pulls + (wide + e0 + step) * 3
                if ADD:
                    p_x += before[3 * step]
                    p_y += before[3 * step + 1]
                    p_z += before[3 * step + 2]
                tl.store(at, p_x, mask=valid)
                tl.store(at + 1, p_y, mask=valid)
                tl.store(at + 2, p_z, mask=valid)
        if HAS_MU:
            tl.store(mubar_out + here, sum_x)
            tl.store(mubar_out + here + FEATURES, sum_y)
            tl.store(mubar_out + here + 2 * FEATURES, sum_z)
            here = (wide + row) * (3 * FEATURES) + f
            tl.store(xbar + here, sum_q)
            tl.store(xbar + here + FEATURES, sum_r)
            tl.store(xbar + here + 2 * FEATURES, sum_m)
