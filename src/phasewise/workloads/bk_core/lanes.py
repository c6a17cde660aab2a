"""Triton device functions that move the data: tiles into columns and back, couplings, states between neighbours.

A thread holds one chunk of a row: column i of a tile (rows, chunks, CHUNK) is a tensor (rows, chunks).
"""

from __future__ import annotations

import triton
import triton.language as tl

# the cure for couplings whose products would leave float32: they count as this in the bound, never in the result
SMALLEST_COUPLING = tl.constexpr(2.0**-14)


@triton.jit
def load_couplings(
    b, c, rows, valid, start, length, stride_bb, stride_bn, stride_cb, stride_cn,
    ROWS: tl.constexpr, CHUNKS: tl.constexpr, CHUNK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """k_s .. k_t, k_{s-1}, the products that bound the discs, and the smallest coupling of each chunk."""
    k = ()
    for v in tl.static_range(0, CHUNK, WIDTH):
        at = start[:, :, None] + (v + tl.arange(0, WIDTH)[None, None, :])
        mask = valid[:, :, None] & (at < length - 1)
        tile = tl.load(b + rows[:, :, None] * stride_bb + at * stride_bn, mask=mask, other=0.0)
        tile *= tl.load(c + rows[:, :, None] * stride_cb + at * stride_cn, mask=mask, other=0.0)
        k += unweave(tile, ROWS, CHUNKS, WIDTH)
    at = start - 1
    mask = valid & (at >= 0) & (at < length - 1)
    left = tl.load(b + rows * stride_bb + at * stride_bn, mask=mask, other=0.0)
    left *= tl.load(c + rows * stride_cb + at * stride_cn, mask=mask, other=0.0)
    kappas = ()
    kappa = tl.zeros_like(left) + 1.0
    lowest = tl.minimum(left, k[CHUNK - 1])
    for i in tl.static_range(CHUNK - 1):
        kappa = kappa * tl.maximum(tl.abs(k[i]), SMALLEST_COUPLING)
        lowest = tl.minimum(lowest, k[i])
        if i % 8 == 6 or i == CHUNK - 2:
            kappas += (kappa,)
            kappa = tl.zeros_like(left) + 1.0
    return k, left, kappas, lowest


@triton.jit
def load_alpha(a, rows, valid, start, length, stride_ab, stride_an, energy, CHUNK: tl.constexpr, EVEN: tl.constexpr):
    """Re alpha as a tile (rows, chunks, CHUNK); 1 beyond the row's end, where the couplings are 0."""
    at = start[:, :, None] + tl.arange(0, CHUNK)[None, None, :]
    mask = valid[:, :, None] & (EVEN | (at < length))
    return tl.load(a + rows[:, :, None] * stride_ab + at * stride_an, mask=mask, other=energy + 1.0) - energy


@triton.jit
def unweave(tile, ROWS: tl.constexpr, CHUNKS: tl.constexpr, WIDTH: tl.constexpr):
    """(rows, chunks, WIDTH) as WIDTH columns, in order."""
    if WIDTH == 1:
        return (tl.reshape(tile, (ROWS, CHUNKS)),)
    else:
        even, odd = tl.split(tl.reshape(tile, (ROWS, CHUNKS, WIDTH // 2, 2)))
        evens = unweave(even, ROWS, CHUNKS, WIDTH // 2)
        odds = unweave(odd, ROWS, CHUNKS, WIDTH // 2)
        columns = ()
        for i in tl.static_range(WIDTH // 2):
            columns += (evens[i], odds[i])
        return columns


@triton.jit
def weave(columns, WIDTH: tl.constexpr):
    """WIDTH columns as (rows, chunks, WIDTH), in order."""
    if WIDTH == 2:
        return tl.join(columns[0], columns[1])
    else:
        return tl.interleave(weave(columns[0::2], WIDTH // 2), weave(columns[1::2], WIDTH // 2))


@triton.constexpr_function
def _exchange_assembly(lanes: int) -> str:
    """PTX that passes two pairs through shared memory; $8 is this lane, $9 and $10 are the lanes to read from."""
    return f"""{{
    .shared .align 16 .b8 box[{16 * lanes}];
    .reg .b32 base, at;
    mov.u32 base, box;
    mad.lo.u32 at, $8, 16, base;
    st.shared.v4.b32 [at], {{$4, $5, $6, $7}};
    bar.sync 0;
    mad.lo.u32 at, $9, 16, base;
    ld.shared.v2.b32 {{$0, $1}}, [at];
    mad.lo.u32 at, $10, 16, base;
    ld.shared.v2.b32 {{$2, $3}}, [at+8];
    }}"""


@triton.jit
def _gather_pair(re, im, index):
    low = re.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    word = tl.gather(low | (im.to(tl.int32, bitcast=True).to(tl.int64) << 32), index, axis=1)
    return word.to(tl.int32).to(tl.float32, bitcast=True), (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def exchange(mu, tau, mu_in, tau_in, side, chunk, ROWS: tl.constexpr, CHUNKS: tl.constexpr, PTX: tl.constexpr):
    """Hand mu to the next chunk and tau to the one before; at a row's ends mu_in and tau_in come in instead.

    The assembly needs one lane a thread: rows x chunks = 32 x warps.
    """
    mu_re, mu_im, tau_re, tau_im = mu[0], mu[1], tau[0], tau[1]
    if CHUNKS > 1:
        lane = side * CHUNKS + chunk
        before = tl.maximum(lane - 1, 0)
        after = tl.minimum(lane + 1, ROWS * CHUNKS - 1)
        if PTX:
            # tl.gather would lay a whole row into each warp, and every warp would then repeat the row's arithmetic
            mu_re, mu_im, tau_re, tau_im = tl.inline_asm_elementwise(
                _exchange_assembly(ROWS * CHUNKS), "=&f,=&f,=&f,=&f,f,f,f,f,r,r,r",
                [mu_re, mu_im, tau_re, tau_im, lane, before, after],
                dtype=(tl.float32, tl.float32, tl.float32, tl.float32), is_pure=False, pack=1,
            )  # fmt: skip
            # before the box is written again; unlike a barrier in the assembly, this one also keeps LLVM from making
            # two loops of a loop of hops, one for the first chunk's thread: their barriers would never meet
            tl.debug_barrier()
        else:
            mu_re, mu_im = _gather_pair(mu_re, mu_im, tl.maximum(chunk - 1, 0) + 0 * side)
            tau_re, tau_im = _gather_pair(tau_re, tau_im, tl.minimum(chunk + 1, CHUNKS - 1) + 0 * side)
    first, last = chunk == 0, chunk == CHUNKS - 1
    mu = (tl.where(first, mu_in[0], mu_re), tl.where(first, mu_in[1], mu_im))
    tau = (tl.where(last, tau_in[0], tau_re), tl.where(last, tau_in[1], tau_im))
    return mu, tau
