"""The weights of a step, or in the open mode of all steps: one softmax over the whole bank for each token and phase."""

from __future__ import annotations

import triton
import triton.language as tl

from phasewise_studies.lior.kernels.buffers import FORMATS, Buffers
from phasewise_studies.lior.kernels.device_functions import (
    load_projection,
    load_rows,
    measure_distance,
    nudge,
    project,
    store_weights,
)
from phasewise_studies.lior.kernels.overlap import overlapping, wait_for_predecessor
from phasewise_studies.lior.prologue import Turned
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import BETA, EPS, NUDGE_SCALE, Sizes

# steps that one program weighs in turn in the open mode: the distances are computed once for all of them
OPEN_STEPS = 8


@triton.jit(do_not_specialize=["first_step", "phases"])
def weigh_kernel(
    weights, means, moduli, tokens, targets, projection, coords, valid, batch, bank, components, elements,
    beta, eps, kappa, first_step, phases,
    N: tl.constexpr, ROWS: tl.constexpr, COMPONENTS: tl.constexpr, STEPS: tl.constexpr, OPEN: tl.constexpr,
    FORMAT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """softmax(-beta R_t |C - q|) over the whole bank for one token and phase, at STEPS steps in turn.

    weights (S, P, B, K or 3K); means and moduli (S, P, DD), in the open mode (S, DD) with one mean for all steps; tokens,
    targets (B, N), projection (DD, N) and coords (K, N) are rotated and scaled by the root of the metric.
    """
    token = tl.program_id(0)
    phase = tl.program_id(1)
    # c: (rows, coordinates), w: (components, coordinates), distance: (rows,)
    c, usable = load_rows(coords, valid, bank, N, ROWS)
    w = load_projection(projection, components, N, COMPONENTS)
    start = tl.load(tokens + token * N + tl.arange(0, N))
    target = tl.load(targets + token * N + tl.arange(0, N))
    wait_for_predecessor(OVERLAP)
    step = first_step + tl.program_id(2) * STEPS
    if OPEN:
        # a periodic Laplacian has mean zero: the coordinates stay what they are
        free = start + project(w, means, components, COMPONENTS)
        q = free
    else:
        line = means + (step * phases).to(tl.int64) * components
        free = start + project(w, line, components, COMPONENTS)
        q = start + project(w, line + phase * components, components, COMPONENTS)
    distance = measure_distance(c, nudge(q, free, target, phase, kappa), eps)
    for i in range(STEPS):
        now = step + i
        trace = (now if OPEN else now * phases + phase).to(tl.int64) * components
        row = ((now * phases + phase).to(tl.int64) * batch + token) * (3 * bank if FORMAT == 3 else bank)
        store_weights(
            weights + row, moduli + trace, distance, usable, beta, elements, bank, components, ROWS, COMPONENTS, FORMAT
        )


def weigh(
    buffers: Buffers, turned: Turned, memory: Memory, sizes: Sizes, mix: str, step: int, overlap: bool = False
) -> None:
    """Weights of one step, or in the open mode of all of them."""
    turns = 1 if sizes.feedback else next(n for n in (OPEN_STEPS, 4, 2, 1) if sizes.steps % n == 0)
    weigh_kernel[(sizes.batch, sizes.phases, 1 if sizes.feedback else sizes.steps // turns)](
        buffers.weights, buffers.means, buffers.moduli, turned.tokens, turned.targets, turned.projection,
        turned.coords, memory.valid, sizes.batch, sizes.bank, sizes.components, sizes.components * sizes.points,
        BETA, EPS, NUDGE_SCALE, step, sizes.phases,
        N=turned.coords.shape[1], ROWS=triton.next_power_of_2(sizes.bank), COMPONENTS=triton.next_power_of_2(sizes.components),
        STEPS=turns, OPEN=not sizes.feedback, FORMAT=FORMATS[mix], OVERLAP=overlap,
        num_warps=8 if sizes.bank >= 1024 else 4, **overlapping(overlap),
    )  # fmt: skip
