"""The variants of the cases that only sample replies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.audit import SLACK, audit_replies
from phasewise_studies.polychromic.model.next_token import NextToken
from phasewise_studies.polychromic.model.replies import Replies
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.common import SAMPLING, choose_dtype, place, refuse_long
from phasewise_studies.polychromic.variants.generation import make_generator


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
        module=NextToken(weights, wide=True),
        fallbacks=generator.fallbacks,
        facts={"language_model": source},
    )
