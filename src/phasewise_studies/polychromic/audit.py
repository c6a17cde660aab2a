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

from phasewise import Shape
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.model.diversity import diversity_closed
from phasewise_studies.polychromic.model.encoder import EncoderWeights, encode, retokenise
from phasewise_studies.polychromic.model.llama import Forward, attend, run_layers
from phasewise_studies.polychromic.model.lora import make_lora
from phasewise_studies.polychromic.model.replies import is_live, join_replies
from phasewise_studies.polychromic.model.rotary import rotation
from phasewise_studies.polychromic.model.sampling import Sampling, misfit
from phasewise_studies.polychromic.model.weights import Weights, list_layer_names
from phasewise_studies.polychromic.reference import LEARNING, choose_device
from phasewise_studies.polychromic.variants.common import SAMPLING

# rows of the vocabulary whose weights are widened at a time
HEAD_ROWS = 8192
# prompts whose layers are computed together: a layer is small beside the logits of one reply
TOGETHER = 4
# probability by which a program of this precision may be off at the edge of the nucleus
SLACK = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 2e-2}


class Widened:
    """One packed tensor, widened layer by layer: a whole model in float64 would show in the peak of the memory."""

    def __init__(self, stacked: Tensor) -> None:
        self.stacked = stacked

    def __getitem__(self, layer: int) -> Tensor:
        return self.stacked[layer].double()


def widen(weights: Weights, flat_lora: Tensor | None) -> Forward:
    """The model in float64, each layer when it is asked for."""
    layers: Any = {name: Widened(getattr(weights, name)) for name in list_layer_names(weights.shape)}
    lora = None if flat_lora is None else make_lora(weights.shape, flat_lora, weights.embed_VD.device, torch.float64)
    return Forward(weights=replace(weights, norm_D=weights.norm_D.double(), **layers), lora=lora, sdpa=True)


def hidden_states_in_double(forward: Forward, tokens_BS: Tensor) -> Tensor:
    """(B, S) token ids, padded on the right -> (B, S, D) of a widened model."""
    x = functional.embedding(tokens_BS, forward.weights.embed_VD).double()
    angles = rotation(forward.weights.shape, torch.arange(tokens_BS.shape[1], device=x.device), x.dtype)
    return run_layers(x, forward, *angles, lambda _, q, k, v: attend(q, k, v, None, sdpa=True))


def logits_in_double(weights: Weights, hidden: Tensor) -> Tensor:
    """Logits (..., V), a part of the vocabulary at a time."""
    return torch.cat([hidden @ part.double().T for part in weights.head_VD.split(HEAD_ROWS)], dim=-1)


def audit(inputs: dict[str, Tensor], outputs: dict[str, Tensor], case: str, shape: Shape) -> dict[str, Tensor]:
    """What the reference's outputs hold, from what a program gave: its texts, with the numbers that it reported of them.

    The judge runs it. `precision` is an empty tensor of the dtype of the program's weights, whose rounding is no error of its own.
    """
    if "precision" not in outputs:
        return outputs
    device, precision = choose_device(), outputs["precision"].dtype
    given = {name: tensor.to(device) for name, tensor in outputs.items()}
    weights = data.load_model(shape.model)[0].to(device, precision)
    if case not in LEARNING:
        batch = {name: tensor.to(device) for name, tensor in inputs.items()}
        return {"first": given["first"], **_audit_texts(weights, None, batch, given)}
    # of many steps, the last
    batch = {name: tensor[-1].to(device) for name, tensor in inputs.items()}
    found = {"quality": given["quality"]}
    if shape.steps > 1:
        texts = batch["tokens"], batch["is_reply"]
        found = {"quality_error": audit_quality(weights, given["before"], *texts, shape.micro, given["quality"])}
    if shape.replies:
        found |= _audit_texts(weights, given["before"], batch, given)
        encoder = data.load_encoder(shape.encoder)[0]
        found |= audit_diversity(encoder, given["tokens"], given["diversity"], given["marginals"])
    return found


def _audit_texts(
    weights: Weights, flat_lora: Tensor | None, batch: dict[str, Tensor], given: dict[str, Tensor]
) -> dict[str, Tensor]:
    return audit_replies(
        weights, flat_lora, batch["prompts"], batch["lengths"], batch["uniforms"], given["tokens"],
        given["log_probabilities"], SAMPLING, SLACK[given["precision"].dtype],
    )  # fmt: skip


@torch.no_grad()
def audit_replies(
    weights: Weights, flat_lora: Tensor | None, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor,
    tokens_RT: Tensor, log_probabilities_RT: Tensor, sampling: Sampling, slack: float,
) -> dict[str, Tensor]:  # fmt: skip
    """`misfit` (R, T) and `log_probability_error` (R,), the rms over a reply's tokens; both are 0 for exact arithmetic.

    A token's own choice is held by `misfit`. The largest error of its log-probability grows with the number of tokens: a plain
    bfloat16 pass of the full model is off by 0.040 (rms), and by 0.12 at most among 384 tokens.
    """
    replies, new = len(tokens_RT) // len(prompts_PS), tokens_RT.shape[1]
    forward = widen(weights, flat_lora)
    joined, _ = join_replies(prompts_PS, lengths_P, tokens_RT)
    together = TOGETHER * replies
    hidden = torch.cat([hidden_states_in_double(forward, some) for some in joined.split(together)])
    starts = (lengths_P - 1).repeat_interleave(replies).tolist()
    found: dict[str, list[Tensor]] = {"misfit": [], "log_probability_error": []}
    for row, start in enumerate(starts):
        log_p = (logits_in_double(weights, hidden[row, start : start + new]) / sampling.temperature).log_softmax(-1)
        own = log_p.gather(-1, tokens_RT[row, :, None])[:, 0]
        found["log_probability_error"].append(log_probabilities_RT[row].double() - own)
        found["misfit"].append(misfit(log_p.exp(), tokens_RT[row], uniforms_RT[row].double(), sampling.top_p, slack))
    live = is_live(tokens_RT)
    misfits, errors = (torch.where(live, torch.stack(found[name]), 0.0) for name in ("misfit", "log_probability_error"))
    rms = (errors.square().sum(-1) / live.sum(-1).clamp_min(1)).sqrt()
    return {"misfit": misfits, "log_probability_error": rms}


@torch.no_grad()
def audit_quality(
    weights: Weights, flat_lora: Tensor, tokens_BS: Tensor, is_reply_BS: Tensor, micro: int, quality: Tensor
) -> Tensor:
    """How far a program's loss on given text, at adapters `flat_lora`, is from that in float64."""
    forward = widen(weights, flat_lora)
    exact = []
    for tokens, is_reply in zip(tokens_BS.split(micro), is_reply_BS.split(micro), strict=True):
        hidden = hidden_states_in_double(forward, tokens)[:, :-1]
        learnt = is_reply[:, 1:].bool()
        log_p = logits_in_double(weights, hidden[learnt]).log_softmax(-1)
        exact.append(-log_p.gather(-1, tokens[:, 1:][learnt][:, None]).mean())
    return quality.double() - torch.stack(exact).mean()


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
