"""The feedback window with all its steps in one kernel, whose programs meet three times a step."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.lior.chain import FORMATS, SPREAD_ROWS, Buffers, Turned, Window, make_window
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import BETA, EPS, NUDGE_SCALE, SOURCE_STEP, Sizes, power_of_two

# one program on each multiprocessor at most: all of them have to run at once
MOST_PROGRAMS = 128
# looks at the counter before a wait is given up: at about 1 us each, a twentieth of a second
LOOKS = 1 << 16


def make_persistent_window(memory: Memory, sizes: Sizes, *, mix: str, compiled: bool) -> Window:
    """As `make_window`, with one kernel in place of three a step; the state gains `barrier_gave_up`, which has to stay 0."""
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

    window = make_window(memory, sizes, mix=mix, compiled=compiled, run_steps=run_steps)

    def state() -> dict[str, Tensor]:
        return window.state() | {"barrier_gave_up": counters[1]}

    return Window(window.run, state, window.load)


def launch(
    buffers: Buffers, turned: Turned, memory: Memory, sizes: Sizes, mix: str, counters: Tensor, programs: int
) -> None:
    """The kernel, after its counter was set to 0."""
    from phasewise_studies.lior.fused import persistent_kernel

    blocks = buffers.parts.shape[1]
    persistent_kernel[(programs,)](
        buffers.planes, buffers.means, buffers.moduli, buffers.parts, buffers.weights, buffers.start, buffers.hops,
        counters[0:], counters[1:], turned.tokens, turned.targets, turned.projection, turned.coords, memory.valid,
        turned.lifted, sizes.batch, sizes.bank, sizes.components, sizes.components * sizes.points, blocks, sizes.steps,
        sizes.phases, BETA, EPS, NUDGE_SCALE, SOURCE_STEP,
        PROGRAMS=programs, GRID=sizes.grid, POINTS=power_of_two(sizes.points), BLOCKS=power_of_two(blocks),
        N=turned.coords.shape[1], ROWS=power_of_two(sizes.bank), COMPONENTS=power_of_two(sizes.components),
        TOKENS=power_of_two(sizes.batch), SPREAD=SPREAD_ROWS, FORMAT=FORMATS[mix], LIMIT=LOOKS, num_warps=8,
    )  # fmt: skip
