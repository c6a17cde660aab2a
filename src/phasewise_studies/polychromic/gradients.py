"""Exact gradients for given replies, and a hundred steps of training on a small model: what the checks of learning need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import Program, Shape
from phasewise_studies.polychromic import data, trainer
from phasewise_studies.polychromic.model.diversity import diversity_closed
from phasewise_studies.polychromic.model.encoder import TINY_ENCODER, draw_encoder, encode, retokenise
from phasewise_studies.polychromic.model.llama import Forward, hidden_states
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora
from phasewise_studies.polychromic.model.replies import is_live, join_replies
from phasewise_studies.polychromic.model.weights import TINY, Weights, draw_weights
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.learning import assemble

HUNDRED = Shape(model="tiny", encoder="tiny", examples=2, micro=2, replies=6, prompt=8, tokens=8, length=16, steps=1)
# in 100 steps a small model moves only if its diversity counts for much
RATE, WEIGHT = 3e-4, 30.0


def step_once(program: Program, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The texts of the batch's last step, and as "own/..." what the program made of them."""
    assert program.place is not None, "a learning program has it"
    placed = program.place(batch)
    result = program.step(placed)
    return {**{name: x[-1] for name, x in placed.items()}, **{f"own/{name}": x for name, x in result.items()}}


def exact_gradient(shape: Shape, raw: Mapping[str, Any], mode: str) -> Tensor:
    """Gradient of the loss at the adapters `raw` was made with, for the replies in it, in float64."""
    tokens = raw["tokens"]
    device = tokens.device
    weights = data.load_model(shape.model)[0].to(device, torch.float64)
    before = raw.get("own/before", draw_flat(weights.shape))
    lora = make_lora(weights.shape, before, device, torch.float64)
    forward = Forward(weights=weights, lora=lora, sdpa=True)
    parts = len(tokens) // shape.micro
    for start in range(0, len(tokens), shape.micro):
        some = slice(start, start + shape.micro)
        loss = trainer.quality(forward, tokens[some], raw["is_reply"][some])
        if mode == "set_pg" and shape.replies:
            rows = slice(start * shape.replies, (start + shape.micro) * shape.replies)
            drawn = raw["own/tokens"][rows]
            joined, live = join_replies(raw["prompts"][some], raw["lengths"][some], drawn)
            marginals = _exact_marginals(shape, drawn).flatten()
            loss = loss + trainer.LAMBDA * trainer.policy_loss(forward, joined, live, marginals, shape.replies)
        (loss / parts).backward()
    return lora.gradient


def _exact_marginals(shape: Shape, drawn: Tensor) -> Tensor:
    encoder = data.load_encoder(shape.encoder)[0].to(drawn.device, torch.float64)
    e = encode(encoder, *retokenise(drawn, is_live(drawn), encoder.shape.vocabulary), sdpa=True)
    return diversity_closed(e.view(-1, shape.replies, e.shape[-1]))[1]


def run_hundred_steps(switches: Switches, device: torch.device, steps: int = 100) -> dict[str, list[float]]:
    """Diversity and loss of each of 100 steps, with fresh uniform numbers and fresh texts in each.

    The texts are the small model's own: their expected gradient is 0, so that what moves is moved by the diversity. On a text
    that it has yet to learn, learning alone changes the diversity, up or down with the text.
    """
    generator = torch.Generator().manual_seed(21)
    shape, vocabulary = HUNDRED, TINY.vocabulary
    weights = draw_weights(TINY).to(device, torch.float32)
    # logits half as large again: replies that are alike at first leave something to gain
    weights = replace(weights, norm_D=weights.norm_D + 1.0)
    encoder = draw_encoder(TINY_ENCODER).to(device, torch.float32)
    texts = write_texts(weights, steps * shape.examples, shape.length, generator).split(shape.examples)
    fixed = {
        "is_reply": (torch.arange(shape.length) > 0).long().expand(shape.examples, -1).to(device),
        "prompts": data.cut_texts(vocabulary, shape.examples, shape.prompt, generator).to(device),
        "lengths": torch.full((shape.examples,), shape.prompt, device=device),
    }
    parts, _ = assemble(switches, weights, encoder, shape, weight=WEIGHT)
    parts.update.set_rate(RATE)
    micro_step = trainer.make_micro_step(parts, shape.replies)
    curves: dict[str, list[float]] = {"diversity": [], "quality": []}
    for text in texts:
        uniforms = torch.rand(shape.examples * shape.replies, shape.tokens, generator=generator).to(device)
        result = trainer.train_step(parts, micro_step, {**fixed, "tokens": text, "uniforms": uniforms})
        curves["diversity"].append(float(result["diversity"].mean()))
        curves["quality"].append(float(result["quality"]))
    return curves


@torch.no_grad()
def write_texts(weights: Weights, count: int, length: int, generator: torch.Generator) -> Tensor:
    """(count, length) tokens: the first at random, each other drawn from the model's distribution."""
    device = weights.embed_VD.device
    forward = Forward(weights=weights)
    tokens = torch.randint(3, weights.shape.vocabulary, (count, 1), generator=generator).to(device)
    for _ in range(length - 1):
        logits = functional.linear(hidden_states(forward, tokens)[:, -1], weights.head_VD)
        # by inversion of the distribution: the same uniform numbers on any device
        edges = logits.double().softmax(-1).cumsum(-1)
        uniforms = torch.rand(count, 1, generator=generator, dtype=torch.float64).to(device)
        drawn = torch.searchsorted(edges, uniforms * edges[:, -1:]).clamp_max(weights.shape.vocabulary - 1)
        tokens = torch.cat([tokens, drawn], dim=1)
    return tokens
