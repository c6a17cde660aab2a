"""Sampled replies: what every way of generating takes and gives, and the ways with a cache that grows.

P prompts of at most S tokens, padded on the right; N replies each, R = P N, reply r belongs to prompt r // N; T new tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.model.llama import Forward, attend, hidden_states, run_layers
from phasewise_studies.polychromic.model.rotary import rotation
from phasewise_studies.polychromic.model.sampling import Sampling, sample

# <|im_end|> of SmolLM2-Instruct, generation_config.json
EOS = 2
ENDS = (EOS,)


@dataclass(frozen=True, kw_only=True)
class Replies:
    """What was sampled; entries after the first end of a reply mean nothing."""

    tokens_RT: Tensor
    # of each token at the sampling temperature, before top-p
    log_probabilities_RT: Tensor
    # of the first new token, for every prompt
    first_PV: Tensor


def is_end(tokens: Tensor, ends: tuple[int, ...] = ENDS) -> Tensor:
    """True where a token is one of `ends`; compared one by one, since a tensor of them would wait for the device."""
    found = torch.zeros_like(tokens, dtype=torch.bool) if not ends else tokens == ends[0]
    for end in ends[1:]:
        found = found | (tokens == end)
    return found


def is_live(tokens_RT: Tensor, ends: tuple[int, ...] = ENDS) -> Tensor:
    """True up to and including the first of `ends` in each reply."""
    found = is_end(tokens_RT, ends).long()
    return found.cumsum(-1) - found == 0


def have_ended(tokens_RT: Tensor, ends: tuple[int, ...] = ENDS) -> bool:
    """Whether every reply holds one of `ends`: waits for the device."""
    return bool(is_end(tokens_RT, ends).any(-1).all())


def first_log_probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution from which the first token of a reply is drawn, before top-p."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return (wide / sampling.temperature).log_softmax(-1)


def generate_growing(
    forward: Forward,
    prompts_PS: Tensor,
    lengths_P: Tensor,
    uniforms_RT: Tensor,
    sampling: Sampling,
    rows: int,
    ends: tuple[int, ...] = ENDS,
) -> Replies:
    """`rows` replies at a time, each with its own copy of the prompt's cache, which is concatenated anew for each token.

    rows = 1 is one reply after another, rows = N one prompt after another, rows = R all at once.
    """
    replies = len(uniforms_RT) // len(prompts_PS)
    parts = []
    for start in range(0, len(uniforms_RT), rows):
        owners = torch.arange(start, start + rows, device=prompts_PS.device) // replies
        parts.append(
            _grow(forward, prompts_PS[owners], lengths_P[owners], uniforms_RT[start : start + rows], sampling, ends)
        )
    first_RV = torch.cat([part.first_PV for part in parts])
    return Replies(
        tokens_RT=torch.cat([part.tokens_RT for part in parts]),
        log_probabilities_RT=torch.cat([part.log_probabilities_RT for part in parts]),
        first_PV=first_RV[::replies],
    )


def _grow(
    forward: Forward, tokens: Tensor, lengths: Tensor, uniforms: Tensor, sampling: Sampling, ends: tuple[int, ...]
) -> Replies:
    # the longest of these prompts: the host has to know it
    longest = int(lengths.max())
    tokens = tokens[:, :longest]
    rows, new = uniforms.shape
    caches: list[tuple[Tensor, Tensor]] = []
    mask = (torch.arange(longest, device=tokens.device) < lengths[:, None])[:, None, None, :]

    def prefill(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        caches.append((k, v))
        return attend(q, k, v, None, sdpa=forward.sdpa)

    def extend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (torch.cat(pair, dim=1) for pair in zip(caches[layer], (k, v), strict=True))
        caches[layer] = (k, v)
        return attend(q, k, v, mask, sdpa=forward.sdpa)

    x = functional.embedding(tokens, forward.weights.embed_VD)
    positions = torch.arange(longest, device=tokens.device)
    hidden = run_layers(x, forward, *rotation(forward.weights.shape, positions, x.dtype), prefill)
    last = hidden[torch.arange(rows, device=tokens.device), lengths - 1]
    drawn = torch.full((rows, new), ends[0] if ends else 0, device=tokens.device)
    chosen = torch.zeros(rows, new, dtype=torch.promote_types(x.dtype, torch.float32), device=tokens.device)
    first = None
    for step in range(new):
        logits = functional.linear(last, forward.weights.head_VD)
        if first is None:
            first = first_log_probabilities(logits, sampling)
        drawn[:, step], chosen[:, step] = sample(logits, uniforms[:, step], sampling)
        # the loop ends when all replies have: one wait for the device for each token, but the last, which nothing follows
        if step + 1 == new or have_ended(drawn[:, : step + 1], ends):
            break
        x = functional.embedding(drawn[:, step : step + 1], forward.weights.embed_VD)
        mask = torch.cat((mask, torch.ones_like(mask[..., :1])), dim=-1)
        angles = rotation(forward.weights.shape, (lengths + step)[:, None], x.dtype)
        last = run_layers(x, forward, *angles, extend)[:, -1]
    assert first is not None, "there is at least one new token"
    return Replies(tokens_RT=drawn, log_probabilities_RT=chosen, first_PV=first)


def join_replies(
    prompts_PS: Tensor, lengths_P: Tensor, tokens_RT: Tensor, ends: tuple[int, ...] = ENDS
) -> tuple[Tensor, Tensor]:
    """Prompt and reply joined, padded on the right: tokens (R, S + T), and a mask (R, S + T - 1) of the reply's predictions."""
    replies = len(tokens_RT) // len(prompts_PS)
    prompts, lengths = prompts_PS.repeat_interleave(replies, 0), lengths_P.repeat_interleave(replies, 0)
    width, new = prompts.shape[1], tokens_RT.shape[1]
    at = torch.arange(width + new, device=prompts.device) - lengths[:, None]
    inside = (at >= 0) & (at < new)
    joined = torch.where(
        inside,
        tokens_RT.gather(1, at.clamp(0, new - 1)),
        functional.pad(prompts, (0, new)).masked_fill(at >= new, 0),
    )
    live = is_live(tokens_RT, ends).gather(1, at.clamp(0, new - 1)) & inside
    return joined, live[:, 1:]


def reply_logits(forward: Forward, prompts_PS: Tensor, lengths_P: Tensor, tokens_RT: Tensor) -> Tensor:
    """Logits (R, T, V) from which each token of given replies was drawn: one forward pass, no cache."""
    joined, _ = join_replies(prompts_PS, lengths_P, tokens_RT)
    replies, new = len(tokens_RT) // len(prompts_PS), tokens_RT.shape[1]
    starts = lengths_P.repeat_interleave(replies, 0)[:, None] - 1 + torch.arange(new, device=joined.device)
    hidden = hidden_states(forward, joined)
    picked = hidden.gather(1, starts[..., None].expand(-1, -1, hidden.shape[-1]))
    return functional.linear(picked, forward.weights.head_VD)
