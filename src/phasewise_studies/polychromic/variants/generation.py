"""Choose how replies are generated: from the switches, a function (prompts, lengths, uniforms) -> Replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from phasewise.kit.graphs import capture
from phasewise.kit.kernels import runs_kernels
from phasewise_studies.polychromic.model import shared_cache
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import Lora, merge
from phasewise_studies.polychromic.model.replies import ENDS, Replies, generate_growing, have_ended
from phasewise_studies.polychromic.model.sampling import Sampling, sample
from phasewise_studies.polychromic.model.weights import Weights
from phasewise_studies.polychromic.switches import Switches

# tokens between two questions to the host, as in decoder.py
BURST = 8


@dataclass(frozen=True, kw_only=True)
class Generator:
    """Replies to prompts, and the kernels that fell back."""

    generate: Callable[[Tensor, Tensor, Tensor], Replies]
    fallbacks: tuple[str, ...] = ()


def make_generator(
    switches: Switches, weights: Weights, lora: Lora | None, sizes: shared_cache.Sizes, sampling: Sampling,
    ends: tuple[int, ...] = ENDS, *, ask_between_bursts: bool = False,
) -> Generator:  # fmt: skip
    """`sizes.prompts` is the number of prompts that are generated for together; loops that ask the host end with `ends`.

    `ask_between_bursts`: loops of graphs too ask after each burst of tokens whether all replies have ended. Phases that are
    timed do not: they make all tokens.
    """
    stop = partial(have_ended, ends=ends)
    forward = Forward(weights=weights, lora=lora, sdpa=switches.sdpa)
    between = stop if ask_between_bursts else None
    if switches.fused_decode:
        return _make_fused(weights, lora, sizes, sampling, between)
    if not switches.shared_cache:
        rows = 1 if switches.batching == "one" else sizes.rows
        return Generator(generate=partial(generate_growing, forward, sampling=sampling, rows=rows, ends=ends))
    sampler, fallbacks = _choose_sampler(switches, weights)
    if switches.decode_graph:
        return _make_graph(weights, lora, switches, sizes, sampling, sampler, fallbacks, between)
    buffers = shared_cache.make_buffers(forward, sizes)
    asked = None if switches.device_sampling else stop
    run = partial(shared_cache.generate_shared, forward, buffers, sampling=sampling, sampler=sampler, stop=asked)
    return Generator(generate=run, fallbacks=fallbacks)


@dataclass(frozen=True)
class Fresh:
    """The weights that are decoded with: the model's own, or a merged copy in fixed memory that `bring` makes anew."""

    weights: Weights
    bring: Callable[[], None]


def keep_merged(weights: Weights, lora: Lora | None) -> Fresh:
    """A merged model costs no adapter products a token, and one pass over the weights each time the adapters change."""
    if lora is None:
        return Fresh(weights, lambda: None)
    static = merge(weights, lora)

    def bring() -> None:
        fresh = merge(weights, lora)
        for name in ("qkv_LOD", "out_LDQ", "gate_up_LFD", "down_LDF"):
            getattr(static, name).copy_(getattr(fresh, name))

    return Fresh(static, bring)


def _make_graph(
    weights: Weights, lora: Lora | None, switches: Switches, sizes: shared_cache.Sizes, sampling: Sampling,
    sampler: shared_cache.Sampler, fallbacks: tuple[str, ...], stop: Callable[[Tensor], bool] | None,
) -> Generator:  # fmt: skip
    """Two graphs: prefill with the first token, and one further token, which is replayed; `stop` is asked after each `BURST`."""
    fresh = keep_merged(weights, lora)
    forward = Forward(weights=fresh.weights, sdpa=switches.sdpa)
    buffers = shared_cache.make_buffers(forward, sizes)

    def start(batch: dict[str, Tensor]) -> Tensor:
        return shared_cache.begin(
            forward, buffers, batch["prompts"], batch["lengths"], batch["uniforms"], sampling, sampler
        )

    example = {
        "prompts": torch.zeros(sizes.prompts, sizes.prompt_length, dtype=torch.long, device=buffers.step.device),
        "lengths": buffers.lengths_P.clone(),
        "uniforms": buffers.uniforms_RT.clone(),
    }
    begin = capture(start, example)
    # one token after the first, so that warming up stays inside the caches
    room = capture(lambda _: shared_cache.decode_token(forward, buffers, sampling, sampler), buffers.step, warmup=1)
    reasons = {begin.reason, room.reason} - {""}

    def generate(prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor) -> Replies:
        fresh.bring()
        batch = {"prompts": prompts_PS, "lengths": lengths_P, "uniforms": uniforms_RT.to(buffers.uniforms_RT.dtype)}
        first_PV = begin.call(batch)
        for made in range(1, sizes.tokens):
            if stop is not None and (made - 1) % BURST == 0 and stop(buffers.tokens_RT[:, :made]):
                break
            room.call(buffers.step)
        return shared_cache.collect(buffers, first_PV.clone())

    return Generator(generate=generate, fallbacks=(*fallbacks, *(f"decode-graph: {reason}" for reason in reasons)))


def _make_fused(
    weights: Weights,
    lora: Lora | None,
    sizes: shared_cache.Sizes,
    sampling: Sampling,
    stop: Callable[[Tensor], bool] | None,
) -> Generator:
    from phasewise_studies.polychromic.model.decoder import Decoder

    fresh = keep_merged(weights, lora)
    decoder = Decoder(fresh.weights, sizes, sampling)

    def generate(prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor) -> Replies:
        fresh.bring()
        return decoder.generate(prompts_PS, lengths_P, uniforms_RT, stop)

    return Generator(generate=generate, fallbacks=tuple(f"fused-decode: {reason}" for reason in decoder.fallbacks))


def _choose_sampler(switches: Switches, weights: Weights) -> tuple[shared_cache.Sampler, tuple[str, ...]]:
    if not switches.device_sampling:
        return sample, ()
    from phasewise_studies.polychromic.kernels.sampler_triton import sample_on_device

    reason = () if runs_kernels(weights.embed_VD.device) else ("device-sampling: no NVIDIA GPU, a sort ran instead",)
    return sample_on_device, reason
