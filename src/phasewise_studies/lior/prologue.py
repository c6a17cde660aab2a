"""What a fused window does before its steps, in PyTorch: once a window instead of once a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.lior.retrieval import split_half
from phasewise_studies.lior.state import Memory
from phasewise_studies.lior.window import Sizes, rotate_by_layers


@dataclass(frozen=True)
class Turned:
    """What stays the same for a whole window: rotated, scaled by the root of the metric, and lifted."""

    # (K, n), (B, n), (B, n), (DD, n)
    coords: Tensor
    tokens: Tensor
    targets: Tensor
    projection: Tensor
    # L S^T transposed, (K, DD): the field's source of a row
    lifted: Tensor
    # the bank's states as the mix multiplies them, (K or 3K, d)
    states: Tensor


def turn(memory: Memory, batch: dict[str, Tensor], sizes: Sizes, mix: str) -> Turned:
    """Rotate and scale everything by one small matrix: distances in the metric become plain ones."""
    identity = torch.eye(len(memory.metric), dtype=memory.metric.dtype, device=memory.metric.device)
    matrix = rotate_by_layers(identity, memory.theta, memory.layers) * memory.metric.sqrt()
    parts = (memory.coords, batch["tokens"], batch["targets"], memory.projection.T)
    turned = (torch.cat(parts) @ matrix).split([len(part) for part in parts])
    lifted = memory.states @ memory.lift.T if sizes.feedback else memory.states
    return Turned(*turned, lifted, convert_states(mix, memory.states))


def convert_states(mix: str, states: Tensor) -> Tensor:
    """States for weights in the format `mix`: as they are, in half precision, or upper, upper, lower half below each other."""
    if mix == "float32":
        return states
    if mix == "split":
        upper, lower = split_half(states)
        return torch.cat((upper, upper, lower))
    return states.to({"float16": torch.float16, "bfloat16": torch.bfloat16}[mix])
