"""Decoding with static caches: a prompt's keys and values are kept once and read by all of its replies.

Nothing here waits for the device or changes shape from token to token, so that a token is one CUDA graph. Cache bytes of P
prompts of S tokens and N replies of T: P S + P N T positions instead of P N (S + T).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from phasewise.kit.regions import region
from phasewise_studies.polychromic.model.llama import Forward, attend, run_layers
from phasewise_studies.polychromic.model.replies import Replies, first_log_probabilities
from phasewise_studies.polychromic.model.rotary import rotation
from phasewise_studies.polychromic.model.sampling import Sampling

Sampler = Callable[[Tensor, Tensor, Sampling], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many prompts and replies, and how long they may get."""

    prompts: int
    replies: int
    prompt_length: int
    tokens: int

    @property
    def rows(self) -> int:
        """Replies in all, R = P N."""
        return self.prompts * self.replies


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """Caches and results in fixed memory; L layers, G key heads, E features a head."""

    prompt_k_LPSGE: Tensor
    prompt_v_LPSGE: Tensor
    own_k_LRTGE: Tensor
    own_v_LRTGE: Tensor
    lengths_P: Tensor
    uniforms_RT: Tensor
    tokens_RT: Tensor
    log_probabilities_RT: Tensor
    # index of the token that comes next, one element
    step: Tensor


def make_buffers(forward: Forward, sizes: Sizes) -> Buffers:
    """Zeroed buffers on the device of the weights."""
    shape, like = forward.weights.shape, forward.weights.embed_VD
    wide = torch.promote_types(like.dtype, torch.float32)
    prompt = (shape.layers, sizes.prompts, sizes.prompt_length, shape.kv_heads, shape.head)
    own = (shape.layers, sizes.rows, sizes.tokens, shape.kv_heads, shape.head)
    return Buffers(
        prompt_k_LPSGE=like.new_zeros(prompt),
        prompt_v_LPSGE=like.new_zeros(prompt),
        own_k_LRTGE=like.new_zeros(own),
        own_v_LRTGE=like.new_zeros(own),
        lengths_P=torch.ones(sizes.prompts, dtype=torch.long, device=like.device),
        uniforms_RT=torch.zeros(sizes.rows, sizes.tokens, dtype=wide, device=like.device),
        tokens_RT=torch.zeros(sizes.rows, sizes.tokens, dtype=torch.long, device=like.device),
        log_probabilities_RT=torch.zeros(sizes.rows, sizes.tokens, dtype=wide, device=like.device),
        step=torch.zeros(1, dtype=torch.long, device=like.device),
    )


@torch.no_grad()
def prefill(forward: Forward, buffers: Buffers, prompts_PS: Tensor) -> Tensor:
    """Fill the prompts' caches; logits (P, V) of the token after each prompt."""

    def remember(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        buffers.prompt_k_LPSGE[layer].copy_(k)
        buffers.prompt_v_LPSGE[layer].copy_(v)
        return attend(q, k, v, None, sdpa=forward.sdpa)

    x = functional.embedding(prompts_PS, forward.weights.embed_VD)
    positions = torch.arange(prompts_PS.shape[1], device=x.device)
    hidden = run_layers(x, forward, *rotation(forward.weights.shape, positions, x.dtype), remember)
    last = hidden[torch.arange(len(x), device=x.device), buffers.lengths_P - 1]
    return functional.linear(last, forward.weights.head_VD)


@torch.no_grad()
def decode_token(forward: Forward, buffers: Buffers, sampling: Sampling, sampler: Sampler) -> None:
    """Token `step` from token `step - 1`, and `step` one further."""
    previous = buffers.tokens_RT.gather(1, (buffers.step - 1).expand(len(buffers.tokens_RT), 1))
    replies = len(previous) // len(buffers.lengths_P)
    positions = buffers.lengths_P.repeat_interleave(replies, 0, output_size=len(previous)) + buffers.step - 1
    x = functional.embedding(previous, forward.weights.embed_VD)
    angles = rotation(forward.weights.shape, positions[:, None], x.dtype)
    attention = _attend_shared(forward, buffers)
    hidden = run_layers(x, forward, *angles, attention)[:, 0]
    record_token(functional.linear(hidden, forward.weights.head_VD), buffers, sampling, sampler)


def record_token(logits_RV: Tensor, buffers: Buffers, sampling: Sampling, sampler: Sampler) -> None:
    """Sample token `step` and write it down."""
    column = buffers.step.expand(len(logits_RV), 1)
    uniforms = buffers.uniforms_RT.gather(1, column)[:, 0]
    with region("sampling"):
        tokens, chosen = sampler(logits_RV, uniforms, sampling)
    buffers.tokens_RT.scatter_(1, column, tokens[:, None])
    buffers.log_probabilities_RT.scatter_(1, column, chosen[:, None].to(buffers.log_probabilities_RT.dtype))
    buffers.step.add_(1)


def _attend_shared(forward: Forward, buffers: Buffers) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    """One query a reply against its prompt's keys and its own: softmax over both, in float32 at least."""
    shape = forward.weights.shape
    prompts, length = buffers.prompt_k_LPSGE.shape[1:3]
    new = buffers.own_k_LRTGE.shape[2]
    device = buffers.step.device
    seen_prompt = torch.arange(length, device=device) < buffers.lengths_P[:, None]
    seen_own = torch.arange(new, device=device) < buffers.step

    def attention(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        own_k, own_v = buffers.own_k_LRTGE[layer], buffers.own_v_LRTGE[layer]
        own_k.index_copy_(1, buffers.step - 1, k)
        own_v.index_copy_(1, buffers.step - 1, v)
        with region("attention"):
            # P prompts, N replies each, G key heads, M queries a key head, E features
            q_PNGME = q.view(prompts, -1, shape.kv_heads, shape.heads // shape.kv_heads, shape.head)
            own_k = own_k.view(prompts, -1, new, shape.kv_heads, shape.head)
            own_v = own_v.view(prompts, -1, new, shape.kv_heads, shape.head)
            scale = shape.head**-0.5
            with_prompt = torch.einsum("pngme,psge->pngms", q_PNGME, buffers.prompt_k_LPSGE[layer]) * scale
            with_own = torch.einsum("pngme,pntge->pngmt", q_PNGME, own_k) * scale
            with_prompt = with_prompt.masked_fill(~seen_prompt[:, None, None, None, :], -torch.inf)
            with_own = with_own.masked_fill(~seen_own, -torch.inf)
            both = torch.cat((with_prompt, with_own), dim=-1)
            share = both.to(torch.promote_types(both.dtype, torch.float32)).softmax(-1).to(q.dtype)
            from_prompt = torch.einsum("pngms,psge->pngme", share[..., :length], buffers.prompt_v_LPSGE[layer])
            from_own = torch.einsum("pngmt,pntge->pngme", share[..., length:], own_v)
        return (from_prompt + from_own).reshape(len(q), 1, -1)

    return attention


@torch.no_grad()
def begin(
    forward: Forward, buffers: Buffers, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor,
    sampling: Sampling, sampler: Sampler,
) -> Tensor:  # fmt: skip
    """Prefill, the first token of each reply, and the distribution (P, V) that it came from."""
    buffers.lengths_P.copy_(lengths_P)
    buffers.uniforms_RT.copy_(uniforms_RT)
    buffers.step.zero_()
    logits_PV = prefill(forward, buffers, prompts_PS)
    replies = len(uniforms_RT) // len(prompts_PS)
    record_token(logits_PV.repeat_interleave(replies, 0, output_size=len(uniforms_RT)), buffers, sampling, sampler)
    return first_log_probabilities(logits_PV, sampling)


def collect(buffers: Buffers, first_PV: Tensor) -> Replies:
    """The results in memory of their own."""
    return Replies(
        tokens_RT=buffers.tokens_RT.clone(),
        log_probabilities_RT=buffers.log_probabilities_RT.clone(),
        first_PV=first_PV,
    )


def generate_shared(
    forward: Forward, buffers: Buffers, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor,
    sampling: Sampling, sampler: Sampler, *, stop: Callable[[Tensor], bool] | None = None, every: int = 1,
) -> Replies:  # fmt: skip
    """All replies at once. `stop(tokens so far)` is asked after each `every` tokens, if given, and may wait for the device."""
    first_PV = begin(forward, buffers, prompts_PS, lengths_P, uniforms_RT, sampling, sampler)
    for step in range(1, uniforms_RT.shape[1]):
        # the first token comes with the prompts, as in the bursts of decoder.py
        if stop is not None and (step - 1) % every == 0 and stop(buffers.tokens_RT[:, :step]):
            break
        decode_token(forward, buffers, sampling, sampler)
    return collect(buffers, first_PV)
