"""Hold sampled replies against float64, token by token, given what was sampled before.

Two programs that differ by rounding part ways at the first token whose uniform number lies between their distributions, and
then give different, equally right texts. So values are not compared: for its own tokens, each program has to show that
every one of them is the token which its uniform number picks from the float64 distribution. The reference gives zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from phasewise.workloads.polychromic.diversity import diversity_closed
from phasewise.workloads.polychromic.encoder import EncoderWeights, encode, retokenise
from phasewise.workloads.polychromic.llama import Forward, attend, rotation, run_layers
from phasewise.workloads.polychromic.lora import make_lora
from phasewise.workloads.polychromic.replies import is_live, join_replies
from phasewise.workloads.polychromic.sampling import Sampling, misfit
from phasewise.workloads.polychromic.weights import Weights

# rows of the vocabulary whose weights are widened at a time
HEAD_ROWS = 8192
# probability by which a program of this precision may be off at the edge of the nucleus
SLACK = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 2e-2}


class Widened:
    """One packed tensor, widened layer by layer: a whole model in float64 would show in the peak of the memory."""

    def __init__(self, stacked: Tensor) -> None:
        self.stacked = stacked

    def __getitem__(self, layer: int) -> Tensor:
        return self.stacked[layer].double()


@torch.no_grad()
def audit_replies(
    weights: Weights, flat_lora: Tensor | None, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor,
    tokens_RT: Tensor, log_probabilities_RT: Tensor, sampling: Sampling, slack: float,
) -> dict[str, Tensor]:  # fmt: skip
    """`misfit` and `log_probability_error` (R, T), both 0 for exact arithmetic."""
    layers: Any = {
        name: Widened(getattr(weights, name))
        for name in ("qkv_LOD", "out_LDQ", "gate_up_LFD", "down_LDF", "norm_attention_LD", "norm_inner_LD")
    }
    shape, device = weights.shape, weights.embed_VD.device
    lora = None if flat_lora is None else make_lora(shape, flat_lora, device, torch.float64)
    forward = Forward(weights=replace(weights, norm_D=weights.norm_D.double(), **layers), lora=lora, sdpa=True)
    replies, new = len(tokens_RT) // len(prompts_PS), tokens_RT.shape[1]
    found: dict[str, list[Tensor]] = {"misfit": [], "log_probability_error": []}
    for prompt in range(len(prompts_PS)):
        rows = slice(prompt * replies, (prompt + 1) * replies)
        one = slice(prompt, prompt + 1)
        joined, _ = join_replies(prompts_PS[one], lengths_P[one], tokens_RT[rows])
        x = functional.embedding(joined, weights.embed_VD).double()
        angles = rotation(shape, torch.arange(joined.shape[1], device=device), x.dtype)
        hidden = run_layers(x, forward, *angles, lambda _, q, k, v: attend(q, k, v, None, sdpa=True))
        start = int(lengths_P[prompt]) - 1
        wanted = hidden[:, start : start + new].flatten(0, 1)
        logits = torch.cat([wanted @ part.double().T for part in weights.head_VD.split(HEAD_ROWS)], dim=-1)
        log_p = (logits / sampling.temperature).log_softmax(-1)
        tokens, uniforms = tokens_RT[rows].flatten(), uniforms_RT[rows].flatten().double()
        off = torch.cat(
            [
                misfit(p.exp(), t, u, sampling.top_p, slack)
                for p, t, u in zip(log_p.split(new), tokens.split(new), uniforms.split(new), strict=True)
            ]
        )
        own = log_p.gather(-1, tokens[:, None])[:, 0]
        found["misfit"].append(off.view(-1, new))
        found["log_probability_error"].append(log_probabilities_RT[rows].double() - own.view(-1, new))
    live = is_live(tokens_RT)
    return {name: torch.where(live, torch.cat(parts), 0.0) for name, parts in found.items()}


@torch.no_grad()
def audit_diversity(
    encoder: EncoderWeights, tokens_RT: Tensor, diversity_P: Tensor, marginals_PN: Tensor
) -> dict[str, Tensor]:
    """`diversity_error` (P,) and `marginal_error` (P, N) for the program's own replies."""
    wide = encoder.to(tokens_RT.device, torch.float64)
    tokens, lengths = retokenise(tokens_RT, is_live(tokens_RT), encoder.shape.vocabulary)
    e = encode(wide, tokens, lengths, sdpa=True)
    score, marginals = diversity_closed(e.view(*marginals_PN.shape, -1))
    return {"diversity_error": diversity_P.double() - score, "marginal_error": marginals_PN.double() - marginals}
