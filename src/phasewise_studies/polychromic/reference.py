"""What every variant is held against: plain PyTorch in float64, one reply after another, on the GPU where there is one.

Outputs of sampled texts are errors of an audit (audit.py), so the reference's are zeros; `first`, the distribution of the first
token of each reply, and `quality`, the loss on given text, are values. Of many optimizer steps in one all outputs are audited:
200 of them in float64 would take minutes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.polychromic import data, trainer
from phasewise_studies.polychromic.model import shared_cache
from phasewise_studies.polychromic.model.diversity import diversity_broadcast
from phasewise_studies.polychromic.model.encoder import encode_each
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.replies import first_log_probabilities
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.common import SAMPLING
from phasewise_studies.polychromic.variants.learning import assemble

LEARNING = ("train-step", "micro-step", "window", "many-steps", "window-8b")


def reference(inputs: dict[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """Plain PyTorch in float64."""
    if case == "diversity":
        return _diversity()
    if case == "encode":
        return _encoder(shape)
    if case in LEARNING:
        return _learning(shape)
    return _replies(shape)


def choose_device() -> torch.device:
    """30 layers in float64 take seconds on a CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _diversity() -> Program:
    """All pairs, and all pairs without each reply: one group after another, on the CPU, where that takes a second."""

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        score, marginals = diversity_broadcast(batch["e"])
        return {"score": score, "marginals": marginals}

    return Program(step=step)


def _encoder(shape: Shape) -> Program:
    """One text after another."""
    weights = data.load_encoder(shape.encoder)[0].to(choose_device(), torch.float64)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        moved = {name: tensor.to(choose_device()) for name, tensor in batch.items()}
        return {"e": encode_each(weights, moved["tokens"], moved["lengths"])}

    return Program(step=step)


def _replies(shape: Shape) -> Program:
    """The distribution of each prompt's next token, and the zeros of a perfect audit."""
    weights = data.load_model(shape.model)[0].to(choose_device(), torch.float64)
    forward = Forward(weights=weights)
    sizes = shared_cache.Sizes(prompts=shape.prompts, replies=1, prompt_length=shape.prompt, tokens=1)
    buffers = shared_cache.make_buffers(forward, sizes)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        buffers.lengths_P.copy_(batch["lengths"])
        logits = shared_cache.prefill(forward, buffers, batch["prompts"].to(choose_device()))
        nothing = torch.zeros_like(batch["uniforms"])
        return {
            "first": first_log_probabilities(logits, SAMPLING),
            "misfit": nothing,
            "log_probability_error": nothing[:, 0].clone(),
        }

    return Program(step=step)


def _learning(shape: Shape) -> Program:
    """The trainer's own step in float64, plain forms throughout; texts that part ways move `quality` far less than the tiers."""
    if shape.steps > 1:
        return Program(
            step=lambda batch: {"quality_error": torch.zeros((), dtype=torch.float64), **_zeros(batch, shape)}
        )
    device = choose_device()
    weights = data.load_model(shape.model)[0].to(device, torch.float64)
    encoder_weights = data.load_encoder(shape.encoder)[0].to(device, torch.float64)
    # together rather than one by one: the same texts in a fraction of the time
    switches = Switches(batching="window", encoder_batched=True, diversity="closed", sdpa=True)
    parts, _ = assemble(switches, weights, encoder_weights, shape)
    micro_step = trainer.make_micro_step(parts, shape.replies)

    def step(batch: dict[str, Tensor]) -> dict[str, Any]:
        one = {name: tensor[0].to(device) for name, tensor in batch.items()}
        return {"quality": trainer.train_step(parts, micro_step, one)["quality"], **_zeros(batch, shape)}

    initial = parts.update.state()
    return Program(step=step, load=lambda _: parts.update.load(initial), state=parts.update.state)


def _zeros(batch: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """What a perfect audit of the last step's replies finds."""
    if not shape.replies:
        return {}
    tokens = torch.zeros_like(batch["uniforms"][-1])
    return {
        "misfit": tokens,
        "log_probability_error": tokens.new_zeros(len(tokens)),
        "diversity_error": tokens.new_zeros(shape.examples),
        "marginal_error": tokens.new_zeros(shape.examples, shape.replies),
    }
