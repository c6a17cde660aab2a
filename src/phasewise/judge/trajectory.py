"""Follow a program over K steps, each with a canonical batch of its own, and keep what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from phasewise.bench.case import BuiltCase

Named = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Canonical tensors on the CPU; `state` is None for a program without one."""

    outputs: tuple[Named, ...]
    initial: Named
    state: Named | None


def follow(case: BuiltCase, steps: int) -> Trajectory:
    """Load the initial state, then place, step and read `steps` times."""
    case.restore()
    initial = case.state()
    outputs = []
    for index in range(steps):
        raw = case.step(case.place(index))
        case.synchronize()
        outputs.append(case.outputs(raw))
    return Trajectory(
        outputs=tuple(outputs), initial=initial, state=None if case.program.state is None else case.state()
    )
