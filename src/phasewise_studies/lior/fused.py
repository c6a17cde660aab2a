"""The Triton kernels of a window: three for each step of the feedback mode, and two for all steps of the open mode."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from phasewise_studies.lior.stages import (
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


@triton.jit
def _wait(OVERLAP: tl.constexpr):
    """Until the kernel before has written all it writes. Only then may the next one start, so it sees that too."""
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()


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
    there = tl.arange(0, POINTS) < GRID * GRID
    imaginary = components.to(tl.int64) * (GRID * GRID)
    old = before + phase * phase_stride + component * (GRID * GRID)
    # two steps back, so it is there already
    re, im = stencil(old, old + imaginary, there, hop, GRID, POINTS)
    _wait(OVERLAP)
    if FEEDBACK:
        re = add_source(re, parts, phase, component, components, blocks, source, BLOCKS)
    new = after + phase * (2 * imaginary) + component * (GRID * GRID)
    store_plane(new, imaginary, means, moduli, phase * components + component, re, im, there, GRID, POINTS)


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
    c, usable = load_rows(coords, valid, bank, N, ROWS)
    w = load_projection(projection, components, N, COMPONENTS)
    start = tl.load(tokens + token * N + tl.arange(0, N))
    target = tl.load(targets + token * N + tl.arange(0, N))
    _wait(OVERLAP)
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


@triton.jit(do_not_specialize=["step", "phases"])
def spread_kernel(
    parts, weights, lifted, batch, bank, components, blocks, step, phases,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, COMPONENTS: tl.constexpr, FORMAT: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """What ROWS bank rows do to the field of one phase: parts (P, blocks, DD) from weights and lifted states (K, DD)."""
    block = tl.program_id(0)
    phase = tl.program_id(1)
    z = load_lifted(lifted, block, bank, components, ROWS, COMPONENTS)
    _wait(OVERLAP)
    spread_rows(
        parts, weights, z, block, phase, step, phases, batch, bank, components, blocks, TOKENS, ROWS, COMPONENTS, FORMAT
    )


@triton.jit(do_not_specialize=["steps"])
def field_window_kernel(
    planes, means, moduli, start, hops, steps, components, GRID: tl.constexpr, POINTS: tl.constexpr
):  # fmt: skip
    """All steps of the open field for one component: planes (2, 2, DD, GRID^2) is scratch, means and moduli (S + 1, DD).

    No other program touches this component, so a barrier of the program is all that a step has to wait for. The last plane
    lies in half `steps % 2` of the scratch.
    """
    component = tl.program_id(0).to(tl.int64)
    point = tl.arange(0, POINTS)
    there = point < GRID * GRID
    imaginary = components.to(tl.int64) * (GRID * GRID)
    old = start + component * (GRID * GRID)
    re, im = tl.load(old + point, mask=there, other=0.0), tl.load(old + imaginary + point, mask=there, other=0.0)
    for step in range(steps + 1):
        half = planes + (step % 2) * (2 * imaginary) + component * (GRID * GRID)
        store_plane(half, imaginary, means, moduli, step * components + component, re, im, there, GRID, POINTS)
        tl.debug_barrier()
        if step < steps:
            re, im = stencil(half, half + imaginary, there, tl.load(hops + step), GRID, POINTS)


@triton.jit
def _meet(arrived, goal, patience, LIMIT: tl.constexpr):
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
            patience = _meet(arrived, goal, patience, LIMIT)
            for item in range(program, batch * phases, PROGRAMS):
                phase, token = item // batch, item % batch
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
            patience = _meet(arrived, goal, patience, LIMIT)
            for item in range(program, blocks * phases, PROGRAMS):
                phase, block = item // blocks, item % blocks
                z = load_lifted(lifted, block, bank, components, SPREAD, COMPONENTS)
                spread_rows(
                    parts, weights, z, block, phase, step, phases, batch, bank, components, blocks,
                    TOKENS, SPREAD, COMPONENTS, FORMAT,
                )  # fmt: skip
            goal += PROGRAMS
            patience = _meet(arrived, goal, patience, LIMIT)
    if patience == 0:
        tl.store(gave_up, 1)
