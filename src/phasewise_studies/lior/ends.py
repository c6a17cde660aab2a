"""What a fused window does before and after its steps, in PyTorch: once a window instead of once a step.

The chain of steps needs only R_t and Re(mean_xy T_t), so coordinates, speeds, LIoR and the mix of all steps are computed
behind it, in one go.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.lior.retrieval import multiply_half, split_half
from phasewise_studies.lior.state import Memory, write_bank
from phasewise_studies.lior.window import (
    EPS,
    LAMBDA_F,
    NUDGE_SCALE,
    Sizes,
    contrast_phases,
    rotate_by_layers,
    update_geometry,
)


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


def mix_weights(weights: Tensor, states: Tensor) -> Tensor:
    """Stored weights (..., K or 3K) times converted states, as one product for all steps, phases and tokens."""
    rows = weights.flatten(0, -2)
    mixed = rows @ states if states.dtype is torch.float32 else multiply_half(rows, states)
    return mixed.view(*weights.shape[:-1], states.shape[1])


def finish(
    memory: Memory,
    batch: dict[str, Tensor],
    sizes: Sizes,
    signs: Tensor,
    means: Tensor,
    moduli: Tensor,
    retrieved: Tensor,
    planes: tuple[Tensor, Tensor, Tensor],
) -> dict[str, Tensor]:
    """Report of a window, and its updates in place.

    Args:
        signs: (P, 1, 1), the nudge of each phase in units of NUDGE_SCALE.
        means: (S, P, DD), mean Re T; moduli: (S, P, DD), sum |T|.
        retrieved: (S, P, B, d).
        planes: the field to overwrite, the free phase's field at the end, and the field at rest.
    """
    shift = means @ memory.projection.T
    free = batch["tokens"] + shift[:, 0, None, :]
    pull = NUDGE_SCALE * (batch["targets"] - free)
    q = batch["tokens"] + shift[:, :, None, :] + signs * pull[:, None]
    speed = torch.sqrt((q.square() * memory.metric).sum(-1) + EPS)
    curvature = moduli.sum(-1) / (sizes.components * sizes.points)
    report = {
        "lior": (curvature[..., None] * speed).mean((0, 2)),
        "curvature": curvature.mean(0),
        "speed": speed.mean((0, 2)),
        "retrieved": retrieved.transpose(0, 1),
    }
    velocity = rotate_by_layers(free.mean((0, 1)), memory.theta, memory.layers)
    contrast = contrast_phases(report["lior"])
    metric, theta = update_geometry(memory.metric, memory.theta, velocity, contrast, memory.layers)
    memory.metric.copy_(metric)
    memory.theta.copy_(theta)
    write_bank(memory, free[-1], retrieved[-1, 0], batch["values"])
    field, end, rest = planes
    field.copy_(end + LAMBDA_F * (rest - end))
    return report


def to_planes(field: Tensor) -> Tensor:
    """(X, Y, D, D, 2) -> (2, DD, XY), so that each component is a plane of its own."""
    x, y, d = field.shape[:3]
    return field.permute(4, 2, 3, 0, 1).reshape(2, d * d, x * y)


def from_planes(planes: Tensor, sizes: Sizes) -> Tensor:
    """The way back."""
    shape = (2, sizes.inner, sizes.inner, sizes.grid, sizes.grid)
    return planes.reshape(shape).permute(3, 4, 1, 2, 0)
