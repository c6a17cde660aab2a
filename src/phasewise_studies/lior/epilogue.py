"""What a fused window does after its steps, in PyTorch: once a window instead of once a step.

The chain of steps needs only R_t and Re(mean_xy T_t), so coordinates, speeds, LIoR and the mix of all steps are computed
behind it, in one go.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.lior.retrieval import multiply_half
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
