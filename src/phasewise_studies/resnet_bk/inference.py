"""Inference of the causal model: logits of whole texts, and decoding, where the whole past is one complex number a layer.

    d_i = a_i - i - 1/d_{i-1},  g_i = 1/d_i   =>   g_i = 1 / (a_i - i - g_{i-1}),  g_{-1} = 0

So the state is the last feature of each layer, (layers, batch, 2), and a token costs the same at any position. Real
arithmetic throughout: complex numbers do not travel to other runtimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from phasewise import Program
from phasewise.kit.graphs import capture
from phasewise_studies.resnet_bk.experts import run_wide
from phasewise_studies.resnet_bk.model import LanguageModel, Sizes, Ways, choose_ways, make_model
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.switches import Switches

# 0.382^24 is 1e-10: nothing in float32, with room for a less regular text
PASSES = 24


def build_inference(
    switches: Switches,
    inputs: Mapping[str, Tensor],
    case: str,
    sizes: Sizes,
    device: torch.device,
    fallbacks: tuple[str, ...],
) -> Program:
    """A forward pass over whole texts, or for `decode` one more token; beside it the module that an export writes."""
    model = make_model(sizes, choose_ways(switches), parameters_in(inputs), device).eval().requires_grad_(False)
    exported = make_model(sizes, Ways(experts=run_wide), parameters_in(inputs), device)
    module: torch.nn.Module
    if switches.streaming:
        module, written = Streaming(model), Streaming(exported)
    elif case == "decode":
        module, written = Prefix(model), Prefix(exported)
    else:
        module, written = Forward(model), Forward(exported, iterated=True)
    dtype = torch.get_default_dtype()

    def place(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not switches.streaming:
            return {"tokens": batch["tokens"].to(device)}
        newest = batch["tokens"].shape[1] - 1
        return {
            "token": batch["tokens"][:, newest].contiguous().to(device),
            "position": torch.tensor([newest], device=device),
            "carried": batch["features"].to(device, dtype),
        }

    def step(placed: dict[str, Tensor]) -> Any:
        with torch.no_grad():
            return module(**placed)

    if switches.graph:
        captured = capture(step, place(inputs))
        step = captured.call
        fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}") if captured.reason else fallbacks
    return Program(step=step, place=place, outputs=_name_logits, module=written, fallbacks=fallbacks)


def advance(a: Tensor, carried: Tensor) -> Tensor:
    """g (batch, 2) of the next position from a (batch,) and g of the one before."""
    re, im = a - carried[:, 0], -1.0 - carried[:, 1]
    scale = 1.0 / (re * re + im * im)
    return torch.stack((re * scale, -im * scale), dim=-1)


class Streaming(nn.Module):
    """token (batch,), position (1,), carried (layers, batch, 2) -> logits (batch, vocabulary) and the next features.

    What comes in is not called what goes out: ONNX has one name space for both.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, position: Tensor, carried: Tensor) -> dict[str, Tensor]:
        """One token further."""
        x = (self.model.tokens(token) + self.model.positions(position))[:, None]
        features = []
        for block, before in zip(self.model.blocks, carried.unbind(0), strict=True):
            x, g = block(x, None, core=lambda a, before=before: advance(a[:, 0], before)[:, None])
            features.append(g[:, 0])
        return {"logits": self.model.head(self.model.norm(x)[:, 0]), "features": torch.stack(features)}


class Prefix(nn.Module):
    """The same from all tokens up to the newest (batch, length), without a state: every layer over every position."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        """Logits of the newest token, and the features at its position."""
        model = self.model
        x = model.tokens(tokens) + model.positions.weight[: tokens.shape[1]]
        features = []
        for block in model.blocks:
            x, g = block(x, None)
            features.append(g[:, -1])
        return {"logits": model.head(model.norm(x)[:, -1]), "features": torch.stack(features)}


class Forward(nn.Module):
    """tokens (batch, length) -> logits (batch, length, vocabulary) of the causal model.

    `iterated` is what export writes: passes over all positions in real arithmetic, and no kernel of ours.
    """

    def __init__(self, model: LanguageModel, *, iterated: bool = False) -> None:
        super().__init__()
        self.model = model
        self.iterated = iterated

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position."""
        if not self.iterated:
            return self.model.logits(tokens)
        model = self.model
        x = model.tokens(tokens) + model.positions.weight[: tokens.shape[1]]
        for block in model.blocks:
            x, _ = block(x, None, core=iterate)
        return model.head(model.norm(x))


def iterate(a: Tensor) -> Tensor:
    """a (batch, length) -> g (batch, length, 2): every position takes its left neighbour's g, `PASSES` times over.

    After t passes the first t positions are exact. Beyond them a wrong start has shrunk by the product of |g|^2 on its way, which is
    0.382 a step where forgetting is slowest (a = 0: the fixed point of d = -i - 1/d is -1.618 i).
    """
    carried = torch.zeros_like(a)[..., None].expand(-1, -1, 2)
    for _ in range(min(PASSES, a.shape[1])):
        before = torch.cat((torch.zeros_like(carried[:, :1]), carried[:, :-1]), dim=1)
        carried = advance(a.flatten(), before.flatten(0, 1)).view(carried.shape)
    return carried


def _name_logits(raw: Any) -> Mapping[str, Tensor]:
    return raw if isinstance(raw, Mapping) else {"logits": raw}
