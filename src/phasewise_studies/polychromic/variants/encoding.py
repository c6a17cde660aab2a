"""The variants of the sentence encoder."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise.kit.graphs import capture
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.model.encoder import EncoderWeights, encode, encode_each
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.common import choose_dtype, place


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
