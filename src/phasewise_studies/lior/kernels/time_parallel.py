"""The open window with all steps at once: one kernel runs the field, one weighs all steps of all tokens.

The field never hears of the retrieval, and its mean stays what it is, since a periodic Laplacian has mean zero.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.lior.fused_window import make_window
from phasewise_studies.lior.kernels.buffers import Buffers
from phasewise_studies.lior.kernels.device_functions import stencil, store_plane
from phasewise_studies.lior.kernels.weights import weigh
from phasewise_studies.lior.prologue import Turned
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import Sizes, Window


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


def make_time_parallel_window(memory: Memory, sizes: Sizes, *, mix: str, compiled: bool) -> Window:
    """The window of the open mode, for memory on a device with kernels."""

    def run_steps(buffers: Buffers, turned: Turned) -> Tensor:
        end = run_open_field(buffers, sizes)
        weigh(buffers, turned, memory, sizes, mix, 0)
        return end

    return make_window(memory, sizes, run_steps, mix=mix, compiled=compiled)


def run_open_field(buffers: Buffers, sizes: Sizes) -> Tensor:
    """All steps of the field at once; returns the last planes, which are those of every phase."""
    field_window_kernel[(sizes.components,)](
        buffers.planes, buffers.means, buffers.moduli, buffers.start, buffers.hops, sizes.steps, sizes.components,
        GRID=sizes.grid, POINTS=triton.next_power_of_2(sizes.points), num_warps=4,
    )  # fmt: skip
    return buffers.planes[sizes.steps % 2, 0]
