"""The rotary embedding (Su et al., arXiv 2104.09864): a position turns pairs of features of queries and keys."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.weights import ModelShape


def rotation(shape: ModelShape, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotary embedding at integer `positions` (...), each (..., head / 2)."""
    wide = torch.promote_types(dtype, torch.float32)
    exponent = torch.arange(0, shape.head, 2, device=positions.device, dtype=wide) / shape.head
    angle = positions[..., None].to(wide) * shape.rope_base**-exponent
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + head/2) of `x` (..., heads, head) by angles (..., head/2)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
