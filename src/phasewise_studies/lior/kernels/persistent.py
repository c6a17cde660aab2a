"""The feedback window with all its steps in one kernel, whose programs meet three times a step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.lior.fused_window import make_window
from phasewise_studies.lior.kernels.buffers import FORMATS, SPREAD_ROWS, Buffers
from phasewise_studies.lior.kernels.device_functions import (
    add_source,
    load_lifted,
    load_projection,
    load_rows,
    measure_distance,
    nudge,
    project,
    spread_rows,
    stencil,
    store_plane,
    store_weights,
)
from phasewise_studies.lior.prologue import Turned
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import BETA, EPS, NUDGE_SCALE, SOURCE_STEP, Sizes, Window

# one program on each multiprocessor at most: all of them have to run at once
MOST_PROGRAMS = 128
# looks at the counter before a wait is given up: at about 1 us each, a twentieth of a second
LOOKS = 1 << 16


@triton.jit
def meet(arrived, goal, patience, LIMIT: tl.constexpr):
    """Wait until `goal` arrivals were counted; returns the patience left, 0 once a wait took over LIMIT looks.

    Every program of the grid has to run at the same time. A count that never comes costs one wait, not one for each step.
    """
    tl.debug_barrier()
    seen = tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu") + 1
    looks = patience
    while (seen < goal) & (looks > 0):
        seen = tl.atomic_add(arrived, 0, sem="acq_rel", scope="gpu")
        looks -= 1
    tl.debug_barrier()
    return tl.where(looks > 0, LIMIT, 0)


@triton.jit(do_not_specialize=["steps", "phases"])
def persistent_kernel(
    planes, means, moduli, parts, weights, start, hops, arrived, gave_up, tokens, targets, projection, coords, valid,
    lifted, batch, bank, components, elements, blocks, steps, phases, beta, eps, kappa, source,
    PROGRAMS: tl.constexpr, GRID: tl.constexpr, POINTS: tl.constexpr, BLOCKS: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, COMPONENTS: tl.constexpr, TOKENS: tl.constexpr, SPREAD: tl.constexpr, FORMAT: tl.constexpr,
    LIMIT: tl.constexpr,
):  # fmt: skip
    """All steps of the feedback mode in PROGRAMS programs that meet three times a step; letters as in the step kernels.

    planes (2, P, 2, DD, GRID^2) and means, moduli (S + 1, P, DD). A plane is read and written by one program only.
    arrived is 0 at the start; gave_up becomes 1 if the programs did not all come.
    """
    program = tl.program_id(0)
    there = tl.arange(0, POINTS) < GRID * GRID
    imaginary = components.to(tl.int64) * (GRID * GRID)
    half = phases.to(tl.int64) * 2 * imaginary
    patience = tl.full((), LIMIT, tl.int32)
    goal = tl.full((), 0, tl.int32)
    for step in range(steps + 1):
        for item in range(program, components * phases, PROGRAMS):
            phase, component = (item // components).to(tl.int64), (item % components).to(tl.int64)
            plane = component * (GRID * GRID)
            place = phase * (2 * imaginary) + plane
            old = planes + ((step + 1) % 2) * half + place
            hop = 0.0
            if step == 0:
                old = start + plane
            else:
                hop = tl.load(hops + step - 1)
            re, im = stencil(old, old + imaginary, there, hop, GRID, POINTS)
            if step > 0:
                re = add_source(re, parts, phase, component, components, blocks, source, BLOCKS)
            new = planes + (step % 2) * half + place
            trace = (step * phases + phase) * components + component
            store_plane(new, imaginary, means, moduli, trace, re, im, there, GRID, POINTS)
        if step < steps:
            goal += PROGRAMS
            patience = meet(arrived, goal, patience, LIMIT)
            for item in range(program, batch * phases, PROGRAMS):
                phase, token = item // batch, item % batch
                # c: (rows, coordinates), w: (components, coordinates), distance: (rows,)
                c, usable = load_rows(coords, valid, bank, N, ROWS)
                w = load_projection(projection, components, N, COMPONENTS)
                q0 = tl.load(tokens + token * N + tl.arange(0, N))
                target = tl.load(targets + token * N + tl.arange(0, N))
                line = (step * phases).to(tl.int64) * components
                free = q0 + project(w, means + line, components, COMPONENTS)
                q = q0 + project(w, means + line + phase * components, components, COMPONENTS)
                distance = measure_distance(c, nudge(q, free, target, phase, kappa), eps)
                row = ((step * phases + phase).to(tl.int64) * batch + token) * (3 * bank if FORMAT == 3 else bank)
                store_weights(
                    weights + row, moduli + line + phase * components, distance, usable, beta, elements, bank,
                    components, ROWS, COMPONENTS, FORMAT,
                )  # fmt: skip
            goal += PROGRAMS
            patience = meet(arrived, goal, patience, LIMIT)
            for item in range(program, blocks * phases, PROGRAMS):
                phase, block = item // blocks, item % blocks
                # (rows, components)
                z = load_lifted(lifted, block, bank, components, SPREAD, COMPONENTS)
                spread_rows(
                    parts, weights, z, block, phase, step, phases, batch, bank, components, blocks,
                    TOKENS, SPREAD, COMPONENTS, FORMAT,
                )  # fmt: skip
            goal += PROGRAMS
            patience = meet(arrived, goal, patience, LIMIT)
    if patience == 0:
        tl.store(gave_up, 1)


def make_persistent_window(memory: Memory, sizes: Sizes, *, mix: str, compiled: bool) -> Window:
    """As `make_lockstep_window`, with one kernel in place of three a step; the state gains `barrier_gave_up`, which has to stay 0."""
    device = memory.metric.device
    # arrivals, and whether a wait was given up
    counters = torch.zeros(2, dtype=torch.int32, device=device)
    programs = MOST_PROGRAMS
    if device.type == "cuda":
        programs = min(programs, torch.cuda.get_device_properties(device).multi_processor_count)
    else:
        # the interpreter runs one program after another
        programs = 1

    def run_steps(buffers: Buffers, turned: Turned) -> Tensor:
        counters[:1].zero_()
        launch(buffers, turned, memory, sizes, mix, counters, programs)
        return buffers.planes[sizes.steps % 2, 0]

    window = make_window(memory, sizes, run_steps, mix=mix, compiled=compiled)

    def state() -> dict[str, Tensor]:
        return window.state() | {"barrier_gave_up": counters[1]}

    return Window(window.run, state, window.load)


def launch(
    buffers: Buffers, turned: Turned, memory: Memory, sizes: Sizes, mix: str, counters: Tensor, programs: int
) -> None:
    """The kernel, after its counter was set to 0."""
    blocks = buffers.parts.shape[1]
    persistent_kernel[(programs,)](
        buffers.planes, buffers.means, buffers.moduli, buffers.parts, buffers.weights, buffers.start, buffers.hops,
        counters[0:], counters[1:], turned.tokens, turned.targets, turned.projection, turned.coords, memory.valid,
        turned.lifted, sizes.batch, sizes.bank, sizes.components, sizes.components * sizes.points, blocks, sizes.steps,
        sizes.phases, BETA, EPS, NUDGE_SCALE, SOURCE_STEP,
        PROGRAMS=programs, GRID=sizes.grid, POINTS=triton.next_power_of_2(sizes.points), BLOCKS=triton.next_power_of_2(blocks),
        N=turned.coords.shape[1], ROWS=triton.next_power_of_2(sizes.bank), COMPONENTS=triton.next_power_of_2(sizes.components),
        TOKENS=triton.next_power_of_2(sizes.batch), SPREAD=SPREAD_ROWS, FORMAT=FORMATS[mix], LIMIT=LOOKS, num_warps=8,
    )  # fmt: skip
