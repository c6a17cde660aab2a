"""The language model: embeddings, residual BK layers, a head over the vocabulary.

    x = token embedding + position embedding
    x = x + BK(LayerNorm x), layer after layer
    BK:  f = experts(x);  v = clamp(w_v f + b_v, -3, 3);  G = diag(tridiag(1, -2 + v, 1) - i)^-1
         BK(x) = f + s (W_g clamp([Re G, Im G], -10, 10) + b_g)
    logits = W LayerNorm x + b

The causal model has 1/d_i, the last diagonal entry of each leading block's inverse, in place of G_ii.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from phasewise.kit.regions import region
from phasewise_studies.resnet_bk.core import features_loop
from phasewise_studies.resnet_bk.cross_entropy import loss_plain
from phasewise_studies.resnet_bk.experts import EXPERTS, route, run_loop, run_wide
from phasewise_studies.resnet_bk.switches import Switches

if TYPE_CHECKING:
    from phasewise_studies.resnet_bk.padding import PaddedClasses

# diagonal of the document's H0, and its bounds on v and on the features
H0_DIAGONAL, V_MAX, FEATURE_MAX = -2.0, 3.0, 10.0


@dataclass(frozen=True)
class Sizes:
    """What the parameters' shapes follow from; the document's are 30000, 64, 4, 128."""

    vocabulary: int
    width: int
    layers: int
    length: int
    causal: bool = False


@dataclass(frozen=True)
class Ways:
    """How the parts are computed, as documented unless told otherwise; the results are the same."""

    # a (batch, length), causal -> features (batch, length, 2)
    core: Callable[[Tensor, bool], Tensor] = features_loop
    # the signature is `run_loop`'s
    experts: Callable[..., Tensor] = run_loop
    # x (tokens, width), head, targets (tokens,) -> mean cross-entropy ()
    loss: Callable[..., Tensor] = loss_plain


def choose_ways(switches: Switches) -> Ways:
    """The ways of a variant."""
    ways = Ways()
    if switches.core == "fused":
        from phasewise_studies.resnet_bk.kernels.core import features

        ways = replace(ways, core=features)
    if switches.experts == "wide" or switches.streaming:
        ways = replace(ways, experts=run_wide)
    # in float32 its products run without tensor cores at a quarter of the library's rate (H200, 8 and 11 TFLOP/s)
    if switches.fused_update and switches.precision != "float32":
        from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import loss_fused

        ways = replace(ways, loss=loss_fused)
    return ways


class Block(nn.Module):
    """One residual BK layer: x (batch, length, width) -> the same, and the features (batch, length, 2)."""

    def __init__(self, sizes: Sizes, ways: Ways) -> None:
        super().__init__()
        hidden = 2 * sizes.width * EXPERTS
        self.causal = sizes.causal
        self.core, self.experts = ways.core, ways.experts
        self.norm = nn.LayerNorm(sizes.width)
        # argmax passes no gradient on: the router stays as it was drawn
        self.router = nn.Linear(sizes.width, EXPERTS).requires_grad_(False)
        self.w1 = nn.Parameter(torch.empty(hidden, sizes.width))
        self.b1 = nn.Parameter(torch.empty(hidden))
        self.w2 = nn.Parameter(torch.empty(sizes.width, hidden))
        self.b2 = nn.Parameter(torch.empty(EXPERTS, sizes.width))
        self.potential = nn.Linear(sizes.width, 1)
        self.mix = nn.Linear(2, sizes.width)
        self.scale = nn.Parameter(torch.empty(()))

    def forward(
        self, x: Tensor, keep: Tensor | None, core: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """`core` stands in for the recursion over positions where decoding carries it along."""
        inner, a = self.potential_of(x, keep)
        g = self.core(a, self.causal) if core is None else core(a)
        mixed = self.mix(g.clamp(-FEATURE_MAX, FEATURE_MAX))
        return x + inner + self.scale * mixed, g

    def potential_of(self, x: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the experts give (batch, length, width), and the diagonal a of H (batch, length)."""
        flat = self.norm(x).flatten(0, 1)
        kept = None if keep is None else keep.flatten(0, 1)
        choice = route(flat, self.router.weight, self.router.bias)
        inner = self.experts(flat, choice, kept, self.w1, self.b1, self.w2, self.b2).view(x.shape)
        v = self.potential(inner).squeeze(-1).to(self.scale.dtype).clamp(-V_MAX, V_MAX)
        return inner, H0_DIAGONAL + v


class LanguageModel(nn.Module):
    """tokens, targets (batch, length) int64 -> the mean cross-entropy in nats."""

    def __init__(self, sizes: Sizes, ways: Ways) -> None:
        super().__init__()
        # not drawn: `make_model` loads them, and to draw on "meta" torch would import its compiler, a second of every process
        self.tokens = nn.Embedding.from_pretrained(torch.empty(sizes.vocabulary, sizes.width), freeze=False)
        self.positions = nn.Embedding.from_pretrained(torch.empty(sizes.length, sizes.width), freeze=False)
        self.blocks = nn.ModuleList(Block(sizes, ways) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head: nn.Linear | PaddedClasses = nn.Linear(sizes.width, sizes.vocabulary)
        self.loss = ways.loss
        # torch.compile may stand between
        self.run_body: Callable[..., Tensor] = self.body

    def body(self, tokens: Tensor, keep: Tensor | None) -> Tensor:
        """Everything before the head: (batch, length, width). keep (batch, layers, length, hidden) is dropout's mask."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for index, block in enumerate(self.blocks):
            x, _ = block(x, None if keep is None else keep[:, index])
        return self.norm(x)

    def forward(self, tokens: Tensor, targets: Tensor, keep: Tensor | None = None) -> Tensor:
        """The mean loss over all tokens."""
        with region("body"):
            x = self.run_body(tokens, keep)
        with region("head"):
            return self.loss(x.flatten(0, 1), self.head, targets.flatten())

    def logits(self, tokens: Tensor) -> Tensor:
        """(batch, length, vocabulary), without dropout."""
        return self.head(self.run_body(tokens, None))


def make_model(sizes: Sizes, ways: Ways, parameters: Mapping[str, Tensor], device: torch.device) -> LanguageModel:
    """A model on `device` in the default dtype with the given `parameters` (see `draw_parameters`)."""
    with torch.device("meta"):
        model = LanguageModel(sizes, ways)
    model.to_empty(device=device).to(torch.get_default_dtype())
    model.load_state_dict({name: parameters[name] for name, _ in model.named_parameters()})
    return model


def draw_parameters(sizes: Sizes, generator: torch.Generator) -> dict[str, Tensor]:
    """Initial parameters in float64, as torch's layers draw theirs: embeddings normal, weights uniform within 1/sqrt(inputs)."""
    with torch.device("meta"):
        shapes = {name: tuple(parameter.shape) for name, parameter in LanguageModel(sizes, Ways()).named_parameters()}
    drawn = {}
    for name, shape in shapes.items():
        if name.startswith(("tokens.", "positions.")):
            drawn[name] = torch.randn(shape, dtype=torch.float64, generator=generator)
        elif name.endswith("norm.weight") or name.endswith("scale"):
            drawn[name] = torch.ones(shape, dtype=torch.float64)
        elif name.endswith("norm.bias"):
            drawn[name] = torch.zeros(shape, dtype=torch.float64)
        else:
            bound = _inputs_of(name, sizes) ** -0.5
            drawn[name] = bound * (2 * torch.rand(shape, dtype=torch.float64, generator=generator) - 1)
    return drawn


def _inputs_of(name: str, sizes: Sizes) -> int:
    """Inputs of the layer that a weight or bias belongs to."""
    if name.endswith(("w2", "b2")):
        return 2 * sizes.width
    return 2 if ".mix." in name else sizes.width
