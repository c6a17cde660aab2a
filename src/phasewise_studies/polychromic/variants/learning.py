"""The variants of the cases that learn: one optimizer step, a micro-step without replies, and many steps in a row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.polychromic import data, trainer
from phasewise_studies.polychromic.model.encoder import EncoderWeights, retokenise
from phasewise_studies.polychromic.model.joined_weights import join
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora
from phasewise_studies.polychromic.model.optimizer import make_update
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.model.weights import Weights
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.trainer import Parts
from phasewise_studies.polychromic.variants.common import SAMPLING, choose_dtype, place, refuse_long
from phasewise_studies.polychromic.variants.diversity import choose_diversity
from phasewise_studies.polychromic.variants.encoding import make_encoder
from phasewise_studies.polychromic.variants.generation import make_generator


def build_learning(switches: Switches, inputs: dict[str, Tensor], shape: Shape, device: torch.device) -> Program:
    """`shape.steps` optimizer steps; the outputs are those of the last, which the judge audits.

    The loss of a single step is a value. That of the last of many is audited at the adapters `before` it: the reference would take
    minutes to get there.
    """
    if shape.replies:
        refuse_long(switches, shape, shape.examples, device)
    model, source = data.load_model(shape.model)
    encoder, encoder_source = data.load_encoder(shape.encoder)
    weights = model.to(device, choose_dtype(switches))
    parts, fallbacks = assemble(switches, weights, encoder.to(device, choose_dtype(switches)), shape)
    micro_step = trainer.make_micro_step(parts, shape.replies)
    if switches.update_graph:
        example = {name: tensor[0] for name, tensor in place(inputs, device).items()}
        micro_step, reason = trainer.capture_micro_step(parts, shape.replies, example)
        fallbacks += (f"update-graph: {reason}",) if reason else ()

    def step(batch: dict[str, Tensor]) -> dict[str, Any]:
        for index in range(shape.steps):
            one = {name: tensor[index] for name, tensor in batch.items()}
            result = trainer.train_step(parts, micro_step, one)
        return result

    def outputs(raw: dict[str, Tensor]) -> dict[str, Tensor]:
        texts = ("tokens", "log_probabilities", "diversity", "marginals") if shape.replies else ()
        found = {name: raw[name] for name in ("quality", "before", *texts)}
        return {**found, "precision": weights.embed_VD.new_empty(0)}

    return Program(
        step=step,
        place=lambda batch: place(batch, device),
        load=parts.update.load,
        state=parts.update.state,
        outputs=outputs,
        fallbacks=fallbacks,
        facts={"language_model": source, "encoder": encoder_source},
    )


def assemble(
    switches: Switches, weights: Weights, encoder: EncoderWeights, shape: Shape, *, weight: float = trainer.LAMBDA
) -> tuple[Parts, tuple[str, ...]]:
    """The parts of a training step on the device of `weights`, and what fell back."""
    device = weights.embed_VD.device
    wide = torch.promote_types(weights.embed_VD.dtype, torch.float32)
    learning_fallbacks: tuple[str, ...] = ()
    lora = make_lora(weights.shape, draw_flat(weights.shape), device, wide)
    together = {"one": shape.micro, "micro": shape.micro, "window": shape.examples}[switches.batching]
    sizes = Sizes(prompts=together, replies=shape.replies, prompt_length=shape.prompt, tokens=shape.tokens)
    compute, fallbacks = choose_diversity(switches, device)
    generate: Any = None
    embed: Any = None
    if shape.replies:
        generator = make_generator(switches, weights, lora, sizes, SAMPLING)
        generate = generator.generate
        texts = torch.zeros(sizes.rows, shape.tokens, dtype=torch.long, device=device)
        tokens, lengths = retokenise(texts, torch.ones_like(texts, dtype=torch.bool), encoder.shape.vocabulary)
        encode, reasons = make_encoder(switches, encoder, {"tokens": tokens, "lengths": lengths})
        fallbacks = (*generator.fallbacks, *fallbacks, *reasons)

        def embed(tokens_RT: Tensor, live_RT: Tensor) -> Tensor:
            return encode(*retokenise(tokens_RT, live_RT, encoder.shape.vocabulary))

    joined = None
    if switches.fused_learning:
        reason = why_not_fused(switches, weights)
        learning_fallbacks = (f"fused-learning: {reason}",) if reason else ()
        joined = None if reason else join(weights, lora)
    parts = Parts(
        forward=Forward(
            weights=weights, lora=lora, sdpa=switches.sdpa, checkpointing=switches.checkpointing, joined=joined
        ),
        lora=lora,
        generate=generate,
        embed=embed,
        diversity=compute,
        update=make_update(lora, flat=switches.flat_update),
        micro=shape.micro,
        together=together,
        mode=switches.mode,
        weight=weight,
    )
    return parts, (*(fallbacks if shape.replies else ()), *learning_fallbacks)


def why_not_fused(switches: Switches, weights: Weights) -> str:
    """Why the plain layers learn; "" if the fused ones do."""
    if weights.embed_VD.device.type != "cuda":
        return "no NVIDIA GPU, the plain layers ran instead"
    if weights.embed_VD.dtype is torch.float64:
        return "the kernels are of float32, in float64 the plain layers ran instead"
    if switches.checkpointing:
        return "it keeps what the backward pass needs, under checkpointing the plain layers ran instead"
    return ""
