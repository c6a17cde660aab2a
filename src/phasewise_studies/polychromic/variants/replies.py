"""The variants of the cases that only sample replies."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.model.next_token import NextToken
from phasewise_studies.polychromic.model.replies import Replies
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.common import SAMPLING, choose_dtype, place, refuse_long
from phasewise_studies.polychromic.variants.generation import make_generator


def build_replies(switches: Switches, shape: Shape, device: torch.device) -> Program:
    """prompts, lengths, uniforms -> tokens, which the judge audits."""
    refuse_long(switches, shape, shape.prompts, device)
    weights, source = data.load_model(shape.model)
    weights = weights.to(device, choose_dtype(switches))
    prompts = {"one": shape.prompts, "micro": 1, "window": shape.prompts}[switches.batching]
    sizes = Sizes(prompts=prompts, replies=shape.replies, prompt_length=shape.prompt, tokens=shape.tokens)
    generator = make_generator(switches, weights, None, sizes, SAMPLING)

    def step(batch: dict[str, Tensor]) -> Replies:
        with torch.no_grad():
            return generator.generate(batch["prompts"], batch["lengths"], batch["uniforms"])

    def outputs(drawn: Replies) -> dict[str, Tensor]:
        return {
            "first": drawn.first_PV, "tokens": drawn.tokens_RT, "log_probabilities": drawn.log_probabilities_RT,
            "precision": weights.embed_VD.new_empty(0),
        }  # fmt: skip

    return Program(
        step=step,
        place=lambda batch: place(batch, device),
        outputs=outputs,
        module=NextToken(weights, wide=True),
        fallbacks=generator.fallbacks,
        facts={"language_model": source},
    )
