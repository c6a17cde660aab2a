"""Sampling with temperature and top-p from a given uniform number, and the audit of a sampled token.

Top-p keeps the nucleus: the fewest most likely tokens whose probabilities sum to at least `top_p`. Of these, in the order of
their indices, the first is taken at which the running sum reaches u times the sum of all kept:

    token = min { t in nucleus : sum_{s <= t, s in nucleus} p_s >= u sum_{s in nucleus} p_s }

That needs no order by probability once the smallest kept probability is known, and has the same distribution as any other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """temperature > 0; top_p = 0 takes the most likely token (the first of equals)."""

    temperature: float = 0.9
    top_p: float = 0.9


GREEDY = Sampling(temperature=1.0, top_p=0.0)


def nucleus_floor(probabilities: Tensor, top_p: float) -> Tensor:
    """The smallest kept probability (..., 1): sorted, which is what the sort-free kernels are held to."""
    return nucleus_floors(probabilities, (top_p,))[0]


def nucleus_floors(probabilities: Tensor, levels: Sequence[float]) -> list[Tensor]:
    """The smallest kept probability (..., 1) for each top-p of `levels`, from one sort."""
    ordered, _ = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    is_first = torch.arange(ordered.shape[-1], device=ordered.device) == 0
    # a token is kept if those before it do not reach top_p; the first always is
    return [ordered.masked_fill(~((before < top_p) | is_first), torch.inf).amin(-1, keepdim=True) for top_p in levels]


def sample(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens (R,) and their log-probability at this temperature before top-p (R,), from logits (R, V) and uniforms (R,)."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32)) / sampling.temperature
    log_probabilities = wide.log_softmax(-1)
    tokens = pick(log_probabilities.exp(), uniforms, sampling.top_p)
    return tokens, log_probabilities.gather(-1, tokens[:, None])[:, 0]


def pick(probabilities: Tensor, uniforms: Tensor, top_p: float) -> Tensor:
    """Tokens (R,) of probabilities (R, V)."""
    if top_p <= 0:
        return probabilities.argmax(-1)
    kept = probabilities * (probabilities >= nucleus_floor(probabilities, top_p))
    running = kept.cumsum(-1)
    reached = (running >= uniforms[:, None].to(running.dtype) * running[:, -1:]) & (kept > 0)
    return reached.to(torch.uint8).argmax(-1)


def misfit(probabilities: Tensor, tokens: Tensor, uniforms: Tensor, top_p: float, slack: float) -> Tensor:
    """How far u lies outside the slice of each token, in probability: 0 where the token is right.

    probabilities (R, V) in float64; `slack` is the probability by which the program's own may be off: a token at the edge of
    the nucleus may be kept or not within it, so the best of the nuclei of top_p - slack, top_p and top_p + slack counts.
    """
    if top_p <= 0:
        return probabilities.amax(-1) - probabilities.gather(-1, tokens[:, None])[:, 0]
    found = []
    # above 1 nothing is cut, however little of float64 a token's probability adds to the sum of those before it
    for floor in nucleus_floors(probabilities, (top_p - slack, top_p, top_p + slack)):
        kept = probabilities * (probabilities >= floor)
        running = kept.cumsum(-1)
        total = running[:, -1]
        upper = running.gather(-1, tokens[:, None])[:, 0] / total
        own = kept.gather(-1, tokens[:, None])[:, 0] / total
        outside = torch.maximum(uniforms - upper, upper - own - uniforms).clamp_min(0)
        # a token that is not kept at all is off by the most that a probability can be
        found.append(torch.where(own > 0, outside, 1.0))
    return torch.stack(found).amin(0)
