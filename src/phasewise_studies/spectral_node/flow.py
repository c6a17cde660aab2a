"""The spectral flow A' = f(c, v, A, e_l): an 11-16-1 network on (c, v, A) and an 8-dimensional embedding of the wavelength.

The embedding's part of the first layer is constant along a trajectory. `fold` computes it once for each wavelength, which
leaves 3 live inputs of 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

EMBEDDING, HIDDEN = 8, 16
NAMES = ("embedding", "w1", "b1", "w2", "b2")


class Flow(NamedTuple):
    """A folded flow: what is left once the wavelength is known."""

    # (W, 16): b1 + W1 e_l
    bias: Tensor
    # (16,) each: columns of W1 for c, v and A
    by_c: Tensor
    by_v: Tensor
    by_a: Tensor
    # (16,) and ()
    out: Tensor
    shift: Tensor


def draw_flow(wavelengths: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Float64 parameters; the embedding is smooth in the wavelength, as absorbance is."""

    def draw(*size: int, scale: float) -> Tensor:
        return scale * torch.randn(*size, dtype=torch.float64, generator=generator)

    waves = torch.linspace(0, 1, wavelengths, dtype=torch.float64)[:, None] * torch.arange(1, EMBEDDING + 1)
    embedding = torch.sin(3 * waves + 6 * torch.rand(EMBEDDING, dtype=torch.float64, generator=generator))
    return {
        "flow/embedding": embedding,
        "flow/w1": draw(HIDDEN, 3 + EMBEDDING, scale=0.5),
        "flow/b1": draw(HIDDEN, scale=0.2),
        "flow/w2": draw(HIDDEN, scale=0.3),
        "flow/b2": torch.tensor(0.05, dtype=torch.float64),
    }


def fold(parameters: Mapping[str, Tensor]) -> Flow:
    """The part of the first layer that depends on the wavelength only, computed once."""
    w1 = parameters["flow/w1"]
    bias = parameters["flow/b1"] + parameters["flow/embedding"] @ w1[:, 3:].T
    by_c, by_v, by_a = w1[:, :3].unbind(1)
    return Flow(bias, by_c, by_v, by_a, parameters["flow/w2"], parameters["flow/b2"])


def take_flow(parameters: Mapping[str, Tensor], *, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """The flow's own parameters, cast and moved."""
    return {f"flow/{name}": parameters[f"flow/{name}"].to(device, dtype) for name in NAMES}


def rate(flow: Flow, c: Tensor, v: Tensor, a: Tensor) -> Tensor:
    """f(c, v, A) for tensors (..., W)."""
    hidden = torch.tanh(flow.bias + c[..., None] * flow.by_c + v[..., None] * flow.by_v + a[..., None] * flow.by_a)
    return hidden @ flow.out + flow.shift
