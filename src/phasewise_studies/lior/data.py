"""The canonical inputs and outputs: tokens, targets and values of a batch, the maps, and the state that training starts from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise_studies.lior.window import COORDINATES, ROTOR_PLANES, Sizes

BATCH = ("tokens", "targets", "values")
MAPS = ("projection", "lift", "rest")
STATE = ("field", "metric", "theta", "bank_coords", "bank_states", "bank_valid", "cursor")
# what a window reports
REPORTED = ("lior", "curvature", "speed", "retrieved")
# one row in this many is invalid within the filled part, as if it had been withdrawn
WITHDRAWN_EVERY = 61


def draw(sizes: Sizes, seed: int) -> dict[str, Tensor]:
    """Float64 and int64 CPU tensors; the batch follows `seed`, maps and state are the same for all seeds."""
    return draw_batch(sizes, seed) | draw_start(sizes)


def draw_batch(sizes: Sizes, seed: int) -> dict[str, Tensor]:
    """tokens and targets (B, n), values (B, d): targets lie around the tokens, far enough out that the metric neither dies nor explodes."""
    normal = _normal(seed + 1)
    tokens = normal(sizes.batch, COORDINATES)
    return {
        "tokens": tokens,
        "targets": 1.2 * tokens + 0.5 * normal(sizes.batch, COORDINATES),
        "values": normal(sizes.batch, sizes.state),
    }


def draw_start(sizes: Sizes) -> dict[str, Tensor]:
    """The maps, and the state before the first window: the field at rest, `filled` rows in the bank."""
    normal = _normal(0)
    rest = 0.5 * normal(sizes.grid, sizes.grid, sizes.inner, sizes.inner, 2)
    # a mean of its own for each component, which the projection reads
    rest = rest + 0.5 * normal(sizes.inner, sizes.inner, 2)
    rows = torch.arange(sizes.bank)
    valid = (rows < sizes.filled) & (rows % WITHDRAWN_EVERY != WITHDRAWN_EVERY - 1)
    return {
        "projection": normal(COORDINATES, sizes.components) / sizes.components**0.5,
        "lift": normal(sizes.components, sizes.state) / sizes.state**0.5,
        "rest": rest,
        "field": rest.clone(),
        "metric": 1 + 0.2 * torch.tanh(normal(COORDINATES)),
        "theta": 0.3 * torch.tanh(normal(ROTOR_PLANES)),
        "bank_coords": normal(sizes.bank, COORDINATES),
        "bank_states": normal(sizes.bank, sizes.state),
        "bank_valid": valid.long(),
        "cursor": torch.tensor(sizes.filled % sizes.bank),
    }


def name_report(raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a window reports."""
    return {name: raw[name] for name in REPORTED}


def _normal(seed: int):
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, dtype=torch.float64, generator=generator)

    return normal
