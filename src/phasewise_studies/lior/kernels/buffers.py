"""Memory of a fused window at fixed addresses, and how a field lies in it: each component is a plane of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import Sizes, hop

# bank rows whose part in the field's source one program adds up
SPREAD_ROWS = 32
# how weights are stored, as the kernels know it
FORMATS = {"float32": 0, "float16": 1, "bfloat16": 2, "split": 3}


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
        parts=torch.zeros(phases, triton.cdiv(sizes.bank, SPREAD_ROWS), sizes.components, device=device),
        signs=torch.tensor(sizes.signs, device=device)[:, None, None],
        hops=torch.tensor([hop(step) for step in range(sizes.steps)], device=device),
    )


def to_planes(field: Tensor) -> Tensor:
    """(X, Y, D, D, 2) -> (2, DD, XY), so that each component is a plane of its own."""
    x, y, d = field.shape[:3]
    return field.permute(4, 2, 3, 0, 1).reshape(2, d * d, x * y)


def from_planes(planes: Tensor, sizes: Sizes) -> Tensor:
    """The way back."""
    shape = (2, sizes.inner, sizes.inner, sizes.grid, sizes.grid)
    return planes.reshape(shape).permute(3, 4, 1, 2, 0)
