"""The fused windows: all phases in lockstep where the field hears the retrieval, all steps at once where it does not.

Mode `feedback`: a phase needs of the free one only its coordinates at the same step, so both advance together, and a step is
three kernels for all phases. The weights of all steps are kept, and one product mixes them at the end.
Mode `open`: the field never hears of the retrieval, and its mean stays what it is (a periodic Laplacian has mean zero). One
kernel runs the field, one weighs all steps of all tokens, one product mixes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.lior.ends import Turned, finish, from_planes, mix_weights, to_planes, turn
from phasewise_studies.lior.state import Memory, load_state, read_state
from phasewise_studies.lior.window import BETA, EPS, NUDGE_SCALE, SOURCE_STEP, Sizes, hop, power_of_two

# bank rows whose part in the field's source one program adds up
SPREAD_ROWS = 32
# steps that one program weighs in turn in the open mode: the distances are computed once for all of them
OPEN_STEPS = 8
# how weights are stored, as the kernels know it
FORMATS = {"float32": 0, "float16": 1, "bfloat16": 2, "split": 3}


@dataclass(frozen=True)
class Window:
    """A window to run, with its state under canonical names."""

    run: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    state: Callable[[], dict[str, Tensor]]
    load: Callable[[Mapping[str, Tensor]], None]


@dataclass(frozen=True)
class Buffers:
    """Fixed memory of a fused window; letters as in `window`."""

    # (2, DD, XY): where the next window starts, and the field at rest
    start: Tensor
    rest: Tensor
    # (2, P, 2, DD, XY), the step before and the step after
    planes: Tensor
    # (S + 1, P, DD), in the open mode (S + 1, 1, DD)
    means: Tensor
    moduli: Tensor
    # (S, P, B, K), or three times as wide where weights are split
    weights: Tensor
    # (P, blocks, DD)
    parts: Tensor
    # (P, 1, 1) and (S,)
    signs: Tensor
    hops: Tensor


def make_buffers(memory: Memory, sizes: Sizes, mix: str) -> Buffers:
    """All memory that a window needs besides the state."""
    device, phases = memory.metric.device, sizes.phases if sizes.feedback else 1
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(mix, torch.float16)
    width = sizes.bank * (3 if mix == "split" else 1)
    traces = torch.zeros(2, sizes.steps + 1, phases, sizes.components, device=device)
    return Buffers(
        start=to_planes(torch.view_as_real(memory.field)).contiguous(),
        rest=to_planes(torch.view_as_real(memory.rest)).contiguous(),
        planes=torch.zeros(2, phases, 2, sizes.components, sizes.points, device=device),
        means=traces[0],
        moduli=traces[1],
        weights=torch.zeros(sizes.steps, sizes.phases, sizes.batch, width, dtype=dtype, device=device),
        parts=torch.zeros(phases, -(-sizes.bank // SPREAD_ROWS), sizes.components, device=device),
        signs=torch.tensor(sizes.signs, device=device)[:, None, None],
        hops=torch.tensor([hop(step) for step in range(sizes.steps)], device=device),
    )


def make_window(
    memory: Memory,
    sizes: Sizes,
    *,
    mix: str,
    overlap: bool = False,
    compiled: bool = False,
    run_steps: Callable[[Buffers, Turned], Tensor] | None = None,
) -> Window:
    """A fused window of the mode that `sizes` asks for, for memory on a device with kernels; `run_steps` replaces its steps."""
    buffers = make_buffers(memory, sizes, mix)
    before, after = turn, finish
    if compiled:
        before, after = (torch.compile(end, fullgraph=True, dynamic=False) for end in (turn, finish))

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        turned = before(memory, batch, sizes, mix)
        if run_steps is not None:
            end = run_steps(buffers, turned)
        elif sizes.feedback:
            end = run_lockstep(buffers, turned, memory, sizes, mix, overlap)
        else:
            end = run_open_field(buffers, sizes)
            weigh(buffers, turned, memory, sizes, mix, 0)
        means, moduli = (trace[: sizes.steps].expand(-1, sizes.phases, -1) for trace in (buffers.means, buffers.moduli))
        mixed = mix_weights(buffers.weights, turned.states)
        return after(memory, batch, sizes, buffers.signs, means, moduli, mixed, (buffers.start, end, buffers.rest))

    def state() -> dict[str, Tensor]:
        return read_state(memory) | {"field": from_planes(buffers.start, sizes)}

    def load(tensors: Mapping[str, Tensor]) -> None:
        load_state(memory, tensors)
        buffers.start.copy_(to_planes(tensors["field"]))

    return Window(run, state, load)


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
    from phasewise_studies.lior.fused import field_step_kernel

    first = step == 0
    before = buffers.start if first else buffers.planes[(step - 1) % 2]
    blocks = buffers.parts.shape[1]
    field_step_kernel[(sizes.components, 1 if step == sizes.steps else sizes.phases)](
        buffers.planes[step % 2], before, buffers.means[step], buffers.moduli[step], buffers.parts, blocks,
        sizes.components, 0.0 if first else hop(step - 1), SOURCE_STEP, 0 if first else before.stride(0),
        GRID=sizes.grid, POINTS=power_of_two(sizes.points), BLOCKS=power_of_two(blocks), FEEDBACK=not first,
        OVERLAP=overlap, num_warps=4, **overlapping(overlap),
    )  # fmt: skip


def weigh(
    buffers: Buffers, turned: Turned, memory: Memory, sizes: Sizes, mix: str, step: int, overlap: bool = False
) -> None:
    """Weights of one step, or in the open mode of all of them."""
    from phasewise_studies.lior.fused import weigh_kernel

    turns = 1 if sizes.feedback else next(n for n in (OPEN_STEPS, 4, 2, 1) if sizes.steps % n == 0)
    weigh_kernel[(sizes.batch, sizes.phases, 1 if sizes.feedback else sizes.steps // turns)](
        buffers.weights, buffers.means, buffers.moduli, turned.tokens, turned.targets, turned.projection,
        turned.coords, memory.valid, sizes.batch, sizes.bank, sizes.components, sizes.components * sizes.points,
        BETA, EPS, NUDGE_SCALE, step, sizes.phases,
        N=turned.coords.shape[1], ROWS=power_of_two(sizes.bank), COMPONENTS=power_of_two(sizes.components),
        STEPS=turns, OPEN=not sizes.feedback, FORMAT=FORMATS[mix], OVERLAP=overlap,
        num_warps=8 if sizes.bank >= 1024 else 4, **overlapping(overlap),
    )  # fmt: skip


def spread(buffers: Buffers, turned: Turned, sizes: Sizes, mix: str, step: int, overlap: bool) -> None:
    """What the retrieval of this step does to the field, block of rows by block of rows."""
    from phasewise_studies.lior.fused import spread_kernel

    blocks = buffers.parts.shape[1]
    spread_kernel[(blocks, sizes.phases)](
        buffers.parts, buffers.weights, turned.lifted, sizes.batch, sizes.bank, sizes.components, blocks, step,
        sizes.phases,
        TOKENS=power_of_two(sizes.batch), ROWS=SPREAD_ROWS, COMPONENTS=power_of_two(sizes.components),
        FORMAT=FORMATS[mix], OVERLAP=overlap, num_warps=4, **overlapping(overlap),
    )  # fmt: skip


def run_open_field(buffers: Buffers, sizes: Sizes) -> Tensor:
    """All steps of the field at once; returns the last planes, which are those of every phase."""
    from phasewise_studies.lior.fused import field_window_kernel

    field_window_kernel[(sizes.components,)](
        buffers.planes, buffers.means, buffers.moduli, buffers.start, buffers.hops, sizes.steps, sizes.components,
        GRID=sizes.grid, POINTS=power_of_two(sizes.points), num_warps=4,
    )  # fmt: skip
    return buffers.planes[sizes.steps % 2, 0]


def overlapping(overlap: bool) -> dict[str, bool]:
    """The launch option that lets a kernel start while the one before it ends."""
    return {"launch_pdl": True} if overlap else {}
