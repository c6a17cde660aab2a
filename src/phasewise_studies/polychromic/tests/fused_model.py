"""One small model twice, with plain layers and with fused ones, and a loss over two batches of other lengths."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.fused_layers import fused_log_probabilities
from phasewise_studies.polychromic.model.joined_weights import join
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora
from phasewise_studies.polychromic.model.weights import ModelShape, draw_weights
from phasewise_studies.polychromic.trainer import token_log_probabilities

# two heads a group, a head and an untied end of their own, no power of two in the sizes
SHAPE = ModelShape(layers=2, width=48, heads=4, kv_heads=2, head=24, inner=80, vocabulary=193, tied=False)
# its heads together are wider than the model
QWEN3 = replace(SHAPE, heads=6, rope_base=1e6, epsilon=1e-6, normed_heads=True)


def make_forwards(
    shape: ModelShape, dtype: torch.dtype, device: str = "cpu", rank: int = 16, alpha: float = 24.0
) -> tuple[Forward, Forward]:
    """Plain and fused, with adapters of their own that begin alike and are not small."""
    weights = draw_weights(shape).to(device, dtype)
    flat = 3 * draw_flat(shape, rank)
    wide = torch.promote_types(dtype, torch.float32)
    plain, fused = (
        Forward(
            weights=weights,
            lora=make_lora(shape, flat, torch.device(device), wide, rank=rank, alpha=alpha),
            sdpa=True,
        )
        for _ in range(2)
    )
    return plain, replace(fused, joined=join(weights, fused.lora))


def draw_batches(shape: ModelShape, sizes: tuple[tuple[int, int], ...] = ((2, 7), (3, 4))) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, shape.vocabulary, size, generator=generator) for size in sizes]


def gradients(forward: Forward, batches: list[Tensor] | None = None) -> tuple[list[Tensor], Tensor]:
    """Log-probabilities of each batch, and the adapters' gradient of a weighted sum of them."""
    batches = draw_batches(forward.weights.shape) if batches is None else batches
    forward.lora.gradient.zero_()
    if forward.joined is None:
        found = [token_log_probabilities(forward, tokens) for tokens in batches]
    else:
        found = fused_log_probabilities(forward, batches)
    weighted = [log_p * torch.linspace(-0.5, 1, log_p.shape[1], device=log_p.device) for log_p in found]
    sum(part.sum() for part in weighted).backward()
    return [log_p.detach() for log_p in found], forward.lora.gradient.clone()
