"""The fused window: a prologue in PyTorch, the steps in the kernels of an engine, and an epilogue in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from phasewise_studies.lior.epilogue import finish, mix_weights
from phasewise_studies.lior.kernels.buffers import Buffers, from_planes, make_buffers, to_planes
from phasewise_studies.lior.prologue import Turned, turn
from phasewise_studies.lior.state import Memory, load_state, read_state
from phasewise_studies.lior.window import Sizes, Window


def make_window(
    memory: Memory, sizes: Sizes, run_steps: Callable[[Buffers, Turned], Tensor], *, mix: str, compiled: bool = False
) -> Window:
    """A window whose steps `run_steps` takes, for memory on a device with kernels.

    Args:
        run_steps: fills means, moduli and weights of the buffers; returns the free phase's last planes, (2, DD, XY).
        mix: the format in which weights are stored and mixed.
        compiled: compile prologue and epilogue.
    """
    buffers = make_buffers(memory, sizes, mix)
    before, after = turn, finish
    if compiled:
        before, after = (torch.compile(end, fullgraph=True, dynamic=False) for end in (turn, finish))

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        turned = before(memory, batch, sizes, mix)
        end = run_steps(buffers, turned)
        means, moduli = (trace[: sizes.steps].expand(-1, sizes.phases, -1) for trace in (buffers.means, buffers.moduli))
        mixed = mix_weights(buffers.weights, turned.states)
        return after(memory, batch, sizes, buffers.signs, means, moduli, mixed, (buffers.start, end, buffers.rest))

    def state() -> dict[str, Tensor]:
        return read_state(memory) | {"field": from_planes(buffers.start, sizes)}

    def load(tensors: Mapping[str, Tensor]) -> None:
        load_state(memory, tensors)
        buffers.start.copy_(to_planes(tensors["field"]))

    return Window(run, state, load)
