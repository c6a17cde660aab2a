"""The feedback window with all phases side by side: three kernels for each step of all phases.

A phase needs of the free one only its coordinates at the same step, so both advance together. The weights of all steps are
kept, and one product mixes them at the end.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.lior.fused_window import make_window
from phasewise_studies.lior.kernels.buffers import FORMATS, SPREAD_ROWS, Buffers
from phasewise_studies.lior.kernels.device_functions import add_source, load_lifted, spread_rows, stencil, store_plane
from phasewise_studies.lior.kernels.overlap import overlapping, wait_for_predecessor
from phasewise_studies.lior.kernels.weights import weigh
from phasewise_studies.lior.prologue import Turned
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import SOURCE_STEP, Sizes, Window, hop


@triton.jit
def field_step_kernel(
    after, before, means, moduli, parts, blocks, components, hop, source, phase_stride,
    GRID: tl.constexpr, POINTS: tl.constexpr, BLOCKS: tl.constexpr, FEEDBACK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """One component of one phase: T <- T - i a lap T + source u, then mean Re T and sum |T| of the new plane.

    after (P, 2, DD, GRID^2); before likewise, with `phase_stride` 0 where all phases begin from one field; means and moduli
    (P, DD); parts (P, blocks, DD), whose sum over blocks is u. hop = 0 and no source copy the field.
    """
    component = tl.program_id(0).to(tl.int64)
    phase = tl.program_id(1).to(tl.int64)
    # a plane is flat: (points of the grid,)
    there = tl.arange(0, POINTS) < GRID * GRID
    imaginary = components.to(tl.int64) * (GRID * GRID)
    old = before + phase * phase_stride + component * (GRID * GRID)
    # two steps back, so it is there already
    re, im = stencil(old, old + imaginary, there, hop, GRID, POINTS)
    wait_for_predecessor(OVERLAP)
    if FEEDBACK:
        re = add_source(re, parts, phase, component, components, blocks, source, BLOCKS)
    new = after + phase * (2 * imaginary) + component * (GRID * GRID)
    store_plane(new, imaginary, means, moduli, phase * components + component, re, im, there, GRID, POINTS)


@triton.jit(do_not_specialize=["step", "phases"])
def spread_kernel(
    parts, weights, lifted, batch, bank, components, blocks, step, phases,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, COMPONENTS: tl.constexpr, FORMAT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """What ROWS bank rows do to the field of one phase: parts (P, blocks, DD) from weights and lifted states (K, DD)."""
    block = tl.program_id(0)
    phase = tl.program_id(1)
    # (rows, components)
    z = load_lifted(lifted, block, bank, components, ROWS, COMPONENTS)
    wait_for_predecessor(OVERLAP)
    spread_rows(
        parts, weights, z, block, phase, step, phases, batch, bank, components, blocks, TOKENS, ROWS, COMPONENTS, FORMAT
    )


def make_lockstep_window(memory: Memory, sizes: Sizes, *, mix: str, overlap: bool, compiled: bool) -> Window:
    """The window of the feedback mode, for memory on a device with kernels."""

    def run_steps(buffers: Buffers, turned: Turned) -> Tensor:
        return run_lockstep(buffers, turned, memory, sizes, mix, overlap)

    return make_window(memory, sizes, run_steps, mix=mix, compiled=compiled)


def run_lockstep(buffers: Buffers, turned: Turned, memory: Memory, sizes: Sizes, mix: str, overlap: bool) -> Tensor:
    """S steps of all phases side by side; returns the free phase's last planes."""
    step_field(buffers, sizes, 0, overlap)
    for step in range(sizes.steps):
        weigh(buffers, turned, memory, sizes, mix, step, overlap)
        spread(buffers, turned, sizes, mix, step, overlap)
        step_field(buffers, sizes, step + 1, overlap)
    return buffers.planes[sizes.steps % 2, 0]


def step_field(buffers: Buffers, sizes: Sizes, step: int, overlap: bool) -> None:
    """The field at `step` from the one before; at 0 every phase copies the window's start, at S only the free one matters."""
    first = step == 0
    before = buffers.start if first else buffers.planes[(step - 1) % 2]
    blocks = buffers.parts.shape[1]
    field_step_kernel[(sizes.components, 1 if step == sizes.steps else sizes.phases)](
        buffers.planes[step % 2], before, buffers.means[step], buffers.moduli[step], buffers.parts, blocks,
        sizes.components, 0.0 if first else hop(step - 1), SOURCE_STEP, 0 if first else before.stride(0),
        GRID=sizes.grid, POINTS=triton.next_power_of_2(sizes.points), BLOCKS=triton.next_power_of_2(blocks), FEEDBACK=not first,
        OVERLAP=overlap, num_warps=4, **overlapping(overlap),
    )  # fmt: skip


def spread(buffers: Buffers, turned: Turned, sizes: Sizes, mix: str, step: int, overlap: bool) -> None:
    """What the retrieval of this step does to the field, block of rows by block of rows."""
    blocks = buffers.parts.shape[1]
    spread_kernel[(blocks, sizes.phases)](
        buffers.parts, buffers.weights, turned.lifted, sizes.batch, sizes.bank, sizes.components, blocks, step,
        sizes.phases,
        TOKENS=triton.next_power_of_2(sizes.batch), ROWS=SPREAD_ROWS, COMPONENTS=triton.next_power_of_2(sizes.components),
        FORMAT=FORMATS[mix], OVERLAP=overlap, num_warps=4, **overlapping(overlap),
    )  # fmt: skip
