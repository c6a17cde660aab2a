"""The variants of the cases that are one piece of the step: replies, the encoder, and diversity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape, Unsupported
from phasewise.kit.graphs import capture, capture_in_place
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.audit import SLACK, audit_replies
from phasewise_studies.polychromic.diversity import diversity_broadcast, diversity_closed
from phasewise_studies.polychromic.encoder import EncoderWeights, encode, encode_each
from phasewise_studies.polychromic.export import NextToken
from phasewise_studies.polychromic.generation import make_generator
from phasewise_studies.polychromic.phases import Switches
from phasewise_studies.polychromic.replies import Replies
from phasewise_studies.polychromic.sampling import Sampling
from phasewise_studies.polychromic.shared import Sizes

SAMPLING = Sampling()
# forward passes one after another that a step of a GPU may take: about 25 ms each without a graph, and a gate steps 26 times
MOST_PASSES = 64


def choose_dtype(switches: Switches) -> torch.dtype:
    """Of frozen weights and activations."""
    if switches.half:
        return torch.bfloat16
    return torch.get_default_dtype()


def refuse_long(switches: Switches, shape: Shape, prompts: int, device: torch.device) -> None:
    """Raise Unsupported where a step would take many seconds on a GPU, and its gate minutes."""
    groups = {"one": prompts * shape.replies, "micro": -(-prompts // shape.get("micro", 1)), "window": 1}
    passes = groups[switches.batching] * shape.tokens * shape.get("steps", 1)
    if device.type == "cuda" and passes > MOST_PASSES and not switches.decode_graph:
        raise Unsupported(
            f"{passes} forward passes one after another take many seconds a step; this form is measured in train-step and decode"
        )


def build_replies(switches: Switches, shape: Shape, device: torch.device) -> Program:
    """prompts, lengths, uniforms -> tokens, audited."""
    refuse_long(switches, shape, shape.prompts, device)
    weights, source = data.load_model(shape.model)
    weights = weights.to(device, choose_dtype(switches))
    prompts = {"one": shape.prompts, "micro": 1, "window": shape.prompts}[switches.batching]
    sizes = Sizes(prompts=prompts, replies=shape.replies, prompt_length=shape.prompt, tokens=shape.tokens)
    generator = make_generator(switches, weights, None, sizes, SAMPLING)
    slack = SLACK[weights.embed_VD.dtype]

    def step(batch: dict[str, Tensor]) -> dict[str, Any]:
        with torch.no_grad():
            drawn = generator.generate(batch["prompts"], batch["lengths"], batch["uniforms"])
        return {**batch, "replies": drawn}

    def outputs(raw: dict[str, Any]) -> dict[str, Tensor]:
        drawn: Replies = raw["replies"]
        found = audit_replies(
            weights, None, raw["prompts"], raw["lengths"], raw["uniforms"], drawn.tokens_RT, drawn.log_probabilities_RT,
            SAMPLING, slack,
        )  # fmt: skip
        return {"first": drawn.first_PV, **found}

    return Program(
        step=step,
        place=lambda batch: place(batch, device),
        outputs=outputs,
        module=NextToken(weights),
        fallbacks=generator.fallbacks,
        facts={"language_model": source},
    )


def place(batch: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """On the device; uniform numbers as float32 at least."""
    wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
    return {
        name: tensor.to(device, wide if tensor.is_floating_point() else tensor.dtype, non_blocking=True)
        for name, tensor in batch.items()
    }


def build_encoder(switches: Switches, inputs: dict[str, Tensor], shape: Shape, device: torch.device) -> Program:
    """tokens, lengths -> unit vectors."""
    encoder, source = data.load_encoder(shape.encoder)
    embed, fallbacks = make_encoder(switches, encoder.to(device, choose_dtype(switches)), place(inputs, device))
    return Program(
        step=lambda batch: {"e": embed(batch["tokens"], batch["lengths"])},
        place=lambda batch: place(batch, device),
        outputs=lambda raw: raw,
        fallbacks=fallbacks,
        facts={"encoder": source},
    )


def make_encoder(
    switches: Switches, weights: EncoderWeights, example: dict[str, Tensor] | None
) -> tuple[Callable[[Tensor, Tensor], Tensor], tuple[str, ...]]:
    """(tokens, lengths) -> unit vectors, and what fell back; `example` has the shapes of a graph's inputs."""
    if not switches.encoder_batched:
        return lambda tokens, lengths: encode_each(weights, tokens, lengths), ()
    if not switches.encoder_graph or example is None:
        return lambda tokens, lengths: encode(weights, tokens, lengths, sdpa=switches.sdpa), ()
    captured = capture(lambda batch: encode(weights, batch["tokens"], batch["lengths"], sdpa=switches.sdpa), example)

    def replay(tokens: Tensor, lengths: Tensor) -> Tensor:
        if tokens.shape != example["tokens"].shape:
            return encode(weights, tokens, lengths, sdpa=switches.sdpa)
        return captured.call({"tokens": tokens, "lengths": lengths}).clone()

    return replay, (f"encoder-graph: {captured.reason}",) if captured.reason else ()


def build_diversity(switches: Switches, inputs: dict[str, Tensor], device: torch.device) -> Program:
    """unit vectors -> score and marginals."""
    compute, fallbacks = choose_diversity(switches, device)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        score, marginals = compute(batch["e"])
        return {"score": score, "marginals": marginals}

    run: Callable[[dict[str, Tensor]], Any] = step
    if switches.diversity_graph:
        captured = capture_in_place(step, place(inputs, device))
        run = captured.call
        fallbacks += (f"diversity-graph: {captured.reason}",) if captured.reason else ()
    return Program(step=run, place=lambda batch: place(batch, device), fallbacks=fallbacks)


def choose_diversity(
    switches: Switches, device: torch.device
) -> tuple[Callable[[Tensor], tuple[Tensor, Tensor]], tuple[str, ...]]:
    """The function of this variant, and why it is not the one that was asked for."""
    if switches.diversity == "closed":
        return diversity_closed, ()
    if switches.diversity == "triton":
        from phasewise_studies.polychromic.diversity_triton import diversity_triton
        from phasewise_studies.polychromic.launching import has_kernel

        reason = (
            () if has_kernel(device) else ("triton-diversity: no NVIDIA GPU, the closed form in PyTorch ran instead",)
        )
        return diversity_triton, reason
    if switches.diversity == "cuda":
        from phasewise_studies.polychromic.diversity_cuda import diversity_cuda, why_not

        reason = why_not(device)
        # asked once: where nvcc refuses, every call would ask it again
        return (diversity_closed, (f"cuda-extension: {reason}",)) if reason else (diversity_cuda, ())
    return diversity_broadcast, ()
