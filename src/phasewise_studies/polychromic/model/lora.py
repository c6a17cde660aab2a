"""Low-rank adapters (LoRA): y = x W^T + (alpha / rank) (x A^T) B^T, with W frozen (Hu et al., arXiv 2106.09685).

All adapters lie in one flat float32 tensor, their gradients in another: zeroing, clipping and the optimizer are then one
operation each. `leaves` are views of it, one a matrix, which autograd knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.weights import ModelShape, Weights

RANK = 16
ALPHA = 16.0
# projections that read the same input and whose weights lie below each other: packed name (weights.py) -> adapters
GROUPS = {
    "qkv_LOD": ("q_proj", "k_proj", "v_proj"),
    "out_LDQ": ("o_proj",),
    "gate_up_LFD": ("gate_proj", "up_proj"),
    "down_LDF": ("down_proj",),
}


@dataclass(frozen=True, kw_only=True)
class Lora:
    """A (rank, in) and B (out, rank) of the seven projections of every layer, keyed `<layer>.<projection>.<A|B>`."""

    shape: ModelShape
    flat: Tensor
    gradient: Tensor
    leaves: Mapping[str, Tensor]
    scale: float
    rank: int

    def pair(self, layer: int, projection: str) -> tuple[Tensor, Tensor]:
        """A (rank, in) and B (out, rank) of one projection of a layer: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj."""
        return self.leaves[f"{layer}.{projection}.A"], self.leaves[f"{layer}.{projection}.B"]

    @torch.no_grad()
    def copy_from(self, flat: Tensor) -> None:
        """Take over parameters; views and gradients stay where they are."""
        self.flat.copy_(flat)


def projection_sizes(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """(out, in) of each projection, in the order in which Hugging Face names them."""
    return {
        "q_proj": (shape.q_size, shape.width),
        "k_proj": (shape.kv_size, shape.width),
        "v_proj": (shape.kv_size, shape.width),
        "o_proj": (shape.width, shape.q_size),
        "gate_proj": (shape.inner, shape.width),
        "up_proj": (shape.inner, shape.width),
        "down_proj": (shape.width, shape.inner),
    }


def count_parameters(shape: ModelShape, rank: int = RANK) -> int:
    """Length of the flat tensor."""
    return shape.layers * rank * sum(out + into for out, into in projection_sizes(shape).values())


def draw_flat(shape: ModelShape, rank: int = RANK, seed: int = 1) -> Tensor:
    """Initial parameters: A normal with deviation 1/sqrt(in); B small but not 0, so that A has a gradient from the start."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for _ in range(shape.layers):
        for out, into in projection_sizes(shape).values():
            parts.append(torch.randn(rank * into, generator=generator) * into**-0.5)
            parts.append(torch.randn(out * rank, generator=generator) * 1e-3)
    return torch.cat(parts)


def make_lora(
    shape: ModelShape, flat: Tensor, device: torch.device, dtype: torch.dtype, *, rank: int = RANK, alpha: float = ALPHA
) -> Lora:
    """Adapters with a copy of `flat`; each leaf's `grad` is a view of `gradient` from the start."""
    own = flat.to(device=device, dtype=dtype, copy=True)
    gradient = torch.zeros_like(own)
    leaves, at = {}, 0
    for layer in range(shape.layers):
        for name, (out, into) in projection_sizes(shape).items():
            for kind, size in (("A", (rank, into)), ("B", (out, rank))):
                count = size[0] * size[1]
                leaf = own[at : at + count].view(size).detach().requires_grad_()
                leaf.grad = gradient[at : at + count].view(size)
                leaves[f"{layer}.{name}.{kind}"] = leaf
                at += count
    assert at == own.numel(), "flat has one entry for each parameter"
    return Lora(shape=shape, flat=own, gradient=gradient, leaves=leaves, scale=alpha / rank, rank=rank)


@torch.no_grad()
def merge(weights: Weights, lora: Lora) -> Weights:
    """W + (alpha / rank) B A for every projection, rounded once to the dtype of W; norms and embedding are shared."""
    shape = weights.shape
    merged = {}
    for name, projections in GROUPS.items():
        pairs = [stack_pair(lora, lora.flat, projection) for projection in projections]
        change = torch.cat([b @ a for a, b in pairs], dim=1)
        stacked = getattr(weights, name)
        merged[name] = (stacked.to(change.dtype) + lora.scale * change).to(stacked.dtype)
    assert shape == lora.shape, "adapters fit the model"
    return replace(weights, **merged)


def stack_pair(lora: Lora, flat: Tensor, projection: str) -> tuple[Tensor, Tensor]:
    """Views A (L, rank, in) and B (L, out, rank) of one projection in all layers; `flat` is the parameters or their gradients."""
    shape = lora.shape
    out, into = projection_sizes(shape)[projection]
    stride, offset = flat.numel() // shape.layers, _offset(shape, projection, lora.rank)
    a = flat.as_strided((shape.layers, lora.rank, into), (stride, into, 1), offset)
    b = flat.as_strided((shape.layers, out, lora.rank), (stride, lora.rank, 1), offset + lora.rank * into)
    return a, b


def _offset(shape: ModelShape, projection: str, rank: int) -> int:
    at = 0
    for name, (out, into) in projection_sizes(shape).items():
        if name == projection:
            return at
        at += rank * (out + into)
    raise KeyError(projection)
