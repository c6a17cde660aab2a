"""Temperature and top-p on the device, without a sort and without the host (sampling.py has the definition).

A row of V logits is cut over SPLITS programs, each of which keeps its part in registers. The smallest kept probability is
found by a search over the bits of p / p_max, which order as the numbers do: of WAYS - 1 thresholds at a time the mass above
each is summed, and the interval that holds the answer is searched again. The programs of a row meet after each round.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import follow, has_half_kernel, meet
from phasewise_studies.polychromic.model.sampling import Sampling, sample

# bits of 1.0f, the largest p / p_max
ONE_BITS: tl.constexpr = tl.constexpr(0x3F800000)
# 2^30 values between 0 and 1.0f, 16 ways at a time, each way at most one more than a sixteenth: 8 rounds and 1 to spare
WAYS: tl.constexpr = tl.constexpr(16)
ROUNDS: tl.constexpr = tl.constexpr(9)
# what each round leaves in global memory: one number a threshold and program
SLOTS = (ROUNDS.value + 3) * WAYS.value
# logits that a warp keeps, 32 a thread
WARP_LOGITS = 1024
MOST_WARPS = 32


@triton.jit
def _share(scratch, counter, slot, value, way, meeting, SPLITS: tl.constexpr):
    """Give `value` (WAYS,) of this program to all programs of the row: (SPLITS, WAYS)."""
    part = tl.program_id(1)
    base = scratch + slot * (SPLITS * WAYS)
    tl.store(base + part * WAYS + way, value)
    if SPLITS > 1:
        meet(counter, meeting * SPLITS)
    else:
        tl.debug_barrier()
    s = tl.arange(0, SPLITS)
    return tl.load(base + s[:, None] * WAYS + way[None, :], cache_modifier=".cg")


@triton.jit
def _add_each(
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
    b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15,
):  # fmt: skip
    """Fifteen sums side by side, one for each threshold."""
    return (
        a1 + b1, a2 + b2, a3 + b3, a4 + b4, a5 + b5, a6 + b6, a7 + b7, a8 + b8, a9 + b9, a10 + b10, a11 + b11, a12 + b12,
        a13 + b13, a14 + b14, a15 + b15,
    )  # fmt: skip


@triton.jit
def sample_kernel(
    tokens, chosen, logits, uniforms, at, scratch, counters, vocabulary, new, inverse_temperature, top_p,
    BLOCK: tl.constexpr, SPLITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The token of each row at index `at`, and its log-probability: (rows, SPLITS) programs."""
    follow(PDL)
    row, part = tl.program_id(0), tl.program_id(1)
    counter = counters + row
    scratch += row * (SPLITS * WAYS * (ROUNDS + 3))
    way = tl.arange(0, WAYS)
    column = tl.load(at)
    per_part = tl.cdiv(vocabulary, SPLITS)
    t = part * per_part + tl.arange(0, BLOCK)
    inside = (tl.arange(0, BLOCK) < per_part) & (t < vocabulary)
    z = tl.load(logits + row * vocabulary.to(tl.int64) + t, mask=inside, other=float("-inf"), cache_modifier=".cg")
    z = z.to(tl.float32) * inverse_temperature
    largest = tl.max(_share(scratch, counter, 0, tl.zeros((WAYS,), tl.float32) + tl.max(z, axis=0), way, 1, SPLITS))
    # p / p_max
    ratio = tl.where(inside, tl.exp(z - largest), 0.0)
    sums = _share(scratch, counter, 1, tl.zeros((WAYS,), tl.float32) + tl.sum(ratio, axis=0), way, 2, SPLITS)
    whole = tl.sum(tl.where(way[None, :] == 0, sums, 0.0))
    wanted = top_p * whole
    key = ratio.to(tl.int32, bitcast=True)
    # the mass from `low` on reaches what is wanted, that from `high` on does not
    low = whole.to(tl.int32) * 0
    high = low + ONE_BITS + 1
    for turn in range(ROUNDS):
        stride = (high - low + WAYS - 1) // WAYS
        above = ()
        for j in tl.static_range(1, WAYS):
            above += (tl.where(key >= low + j * stride, ratio, 0.0),)
        # in one reduction: fifteen would meet fifteen times within the program
        masses = tl.reduce(above, 0, _add_each)
        mass = tl.zeros((WAYS,), tl.float32)
        for j in tl.static_range(1, WAYS):
            mass = tl.where(way == j, masses[j - 1], mass)
        total = tl.sum(_share(scratch, counter, 2 + turn, mass, way, 3 + turn, SPLITS), axis=0)
        # thresholds are in order: so many of them still leave enough
        enough = tl.sum(((total >= wanted) & (way > 0) & (low + way * stride < high)).to(tl.int32), axis=0)
        low = low + enough * stride
        high = tl.minimum(high, low + stride)
    # the largest by comparison: its ratio need not be 1.0, as the compiler fuses the product in z with the subtraction
    kept = tl.where(tl.where(top_p > 0, key >= low, z == largest) & inside, ratio, 0.0)
    own = tl.sum(kept, axis=0)
    parts = _share(scratch, counter, 2 + ROUNDS, tl.zeros((WAYS,), tl.float32) + own, way, 3 + ROUNDS, SPLITS)
    part_sums = tl.sum(tl.where(way[None, :] == 0, parts, 0.0), axis=1)
    s = tl.arange(0, SPLITS)
    before = tl.sum(tl.where(s < part, part_sums, 0.0), axis=0)
    # without chance the first of equals
    goal = tl.where(top_p > 0, tl.load(uniforms + row * new + column) * tl.sum(part_sums, axis=0), 0.0)
    # the same additions in every program, so that exactly one holds the goal
    reached = tl.sum(tl.where(s <= part, part_sums, 0.0), axis=0)
    rest = tl.sum(tl.where(s > part, part_sums, 0.0), axis=0)
    is_first, is_last = before == 0, rest == 0
    if (own > 0) & ((goal > before) | is_first) & ((goal <= reached) | is_last):
        running = before + tl.cumsum(kept, axis=0)
        found = tl.min(tl.where((kept > 0) & (running >= goal), t, 2147483647), axis=0)
        # a running sum may end a rounding short of the goal
        final = tl.max(tl.where(kept > 0, t, 0), axis=0)
        token = tl.minimum(found, final)
        tl.store(tokens + row * new + column, token.to(tokens.dtype.element_ty))
        picked = tl.sum(tl.where(t == token, z, 0.0), axis=0)
        tl.store(chosen + row * new + column, picked - largest - tl.log(whole))


def choose_split(rows: int, vocabulary: int, multiprocessors: int) -> tuple[int, int, int]:
    """Programs a row, logits of each (a power of 2) and its warps: all programs have to run at once, one a multiprocessor."""
    splits = 1
    while 2 * splits * rows <= multiprocessors and splits < 16 and vocabulary // splits > WARP_LOGITS:
        splits *= 2
    block = triton.next_power_of_2(triton.cdiv(vocabulary, splits))
    return splits, block, min(max(block // WARP_LOGITS, 4), MOST_WARPS)


def launch_sample(
    tokens_RT: Tensor, chosen_RT: Tensor, logits_RV: Tensor, uniforms_RT: Tensor, at: Tensor, scratch: Tensor, counters: Tensor,
    sampling: Sampling, split: tuple[int, int, int], *, pdl: bool = False,
) -> None:  # fmt: skip
    """Sample column `at` of `tokens_RT`; `counters` (R,) int32 are 0, `scratch` has SLOTS floats a row and program."""
    splits, block, warps = split
    rows, vocabulary = logits_RV.shape
    overlap = {"launch_pdl": True} if pdl else {}
    sample_kernel[(rows, splits)](
        tokens_RT, chosen_RT, logits_RV, uniforms_RT, at, scratch, counters, vocabulary, tokens_RT.shape[1],
        1.0 / sampling.temperature, sampling.top_p, BLOCK=block, SPLITS=splits, PDL=pdl, num_warps=warps, **overlap,
    )  # fmt: skip


def sample_on_device(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """`sampling.sample` by the kernel; on other devices, or in float64, by a sort."""
    if not has_half_kernel(logits.device, logits.dtype):
        return sample(logits, uniforms, sampling)
    return sample_with_kernel(logits, uniforms, sampling, _multiprocessors(logits.device))


def sample_with_kernel(
    logits: Tensor, uniforms: Tensor, sampling: Sampling, multiprocessors: int = 1
) -> tuple[Tensor, Tensor]:
    """One launch for logits (R, V): tokens (R,) and their log-probabilities (R,)."""
    rows, vocabulary = logits.shape
    split = choose_split(rows, vocabulary, multiprocessors)
    tokens = torch.zeros(rows, 1, dtype=torch.long, device=logits.device)
    chosen = torch.zeros(rows, 1, device=logits.device)
    scratch = torch.zeros(rows * split[0] * SLOTS, device=logits.device)
    counters = torch.zeros(rows, dtype=torch.int32, device=logits.device)
    at = torch.zeros(1, dtype=torch.long, device=logits.device)
    launch_sample(
        tokens, chosen, logits.contiguous(), uniforms.float()[:, None].contiguous(), at, scratch, counters, sampling, split
    )  # fmt: skip
    return tokens[:, 0], chosen[:, 0]


def _multiprocessors(device: torch.device) -> int:
    # Triton's interpreter runs one program after another
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
