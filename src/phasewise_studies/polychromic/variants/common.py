"""What the programs of several cases share: how texts are sampled, where inputs go, and what takes too long."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise import Shape, Unsupported
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.switches import Switches

SAMPLING = Sampling()
# forward passes one after another that a step of a GPU may take: about 25 ms each without a graph, and a gate steps 26 times
MOST_PASSES = 64


def choose_dtype(switches: Switches) -> torch.dtype:
    """Of frozen weights and activations."""
    if switches.half:
        return torch.bfloat16
    return torch.get_default_dtype()


def refuse_long(switches: Switches, shape: Shape, prompts: int, device: torch.device) -> None:
    """Raise Unsupported where a step would take many seconds on a GPU, and its gate minutes."""
    groups = {"one": prompts * shape.replies, "micro": -(-prompts // shape.get("micro", 1)), "window": 1}
    passes = groups[switches.batching] * shape.tokens * shape.get("steps", 1)
    if device.type == "cuda" and passes > MOST_PASSES and not switches.decode_graph:
        raise Unsupported(
            f"{passes} forward passes one after another take many seconds a step; this form is measured in train-step and decode"
        )


def place(batch: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """On the device; uniform numbers as float32 at least."""
    wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
    return {
        name: tensor.to(device, wide if tensor.is_floating_point() else tensor.dtype, non_blocking=True)
        for name, tensor in batch.items()
    }
