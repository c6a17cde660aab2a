"""One optimizer step of the polychromic trainer, from parts that phases exchange.

For examples (x_i, y_i) with N replies r_i^1..r_i^N sampled from p_theta(. | x_i), diversity D_i and marginals A_i^j (diversity.py):
    Q = mean over the tokens of y_i of -log p_theta(y_i | x_i),
    faithful:  L = Q - lambda mean_i D_i, whose second term has no gradient: D is a number that sampling gave;
    set_pg:    L = Q - lambda mean_i sum_j A_i^j / |r_i^j| log p_theta(r_i^j | x_i), the gradient of the expected D with each
               reply's own contribution as its advantage (set reinforcement learning: arXiv 2509.25424).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from phasewise.kit.graphs import capture
from phasewise.kit.regions import region
from phasewise_studies.polychromic.model.llama import Forward, hidden_states
from phasewise_studies.polychromic.model.lora import Lora
from phasewise_studies.polychromic.model.optimizer import Update
from phasewise_studies.polychromic.model.replies import ENDS, Replies, is_live, join_replies

# config/experiments/polychromic_0.3.yaml of the document, as its specification quotes it
LAMBDA = 0.3

Embed = Callable[[Tensor, Tensor], Tensor]
Generate = Callable[[Tensor, Tensor, Tensor], Replies]
Diversity = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Replies with their embeddings' diversity D (P,) and each one's contribution to it A (P, N)."""

    replies: Replies
    diversity_P: Tensor
    marginals_PN: Tensor


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a step is made of."""

    # our own plain forward pass, or any function from tokens (B, S) to log-probabilities (B, S - 1)
    forward: Forward | Callable[[Tensor], Tensor]
    lora: Lora
    generate: Generate
    embed: Embed
    diversity: Diversity
    update: Update
    # examples that one forward and backward pass takes
    micro: int
    # examples whose replies are generated together
    together: int
    mode: str = "set_pg"
    weight: float = LAMBDA
    # the tokens that end a reply
    ends: tuple[int, ...] = ENDS


def score(parts: Parts, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor) -> Scored:
    """Sample replies to all prompts, `together` at a time, and see how much they differ."""
    found = []
    replies = len(uniforms_RT) // len(prompts_PS)
    for start in range(0, len(prompts_PS), parts.together):
        some = slice(start, start + parts.together)
        with region("generation"), torch.no_grad():
            drawn = parts.generate(
                prompts_PS[some], lengths_P[some], uniforms_RT[start * replies : (start + parts.together) * replies]
            )
        with region("diversity"), torch.no_grad():
            e = parts.embed(drawn.tokens_RT, is_live(drawn.tokens_RT, parts.ends))
            score, marginals = parts.diversity(e.view(-1, replies, e.shape[-1]))
        found.append(Scored(replies=drawn, diversity_P=score, marginals_PN=marginals))
    return found[0] if len(found) == 1 else _join(found)


def token_log_probabilities(forward: Forward, tokens: Tensor) -> Tensor:
    """log p(tokens[:, t + 1] | tokens[:, :t + 1]) in float32 at least: (B, S) -> (B, S - 1)."""
    if forward.joined is not None:
        # Triton is an extra
        from phasewise_studies.polychromic.model.fused_layers import fused_log_probabilities

        return fused_log_probabilities(forward, [tokens])[0]
    hidden = hidden_states(forward, tokens)[:, :-1]
    logits = functional.linear(hidden, forward.weights.head_VD)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return -functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none").view(
        len(tokens), -1
    )


def token_scores(forward: Forward | Callable[[Tensor], Tensor], tokens_BS: Tensor) -> Tensor:
    """log p of each token given those before it, (B, S - 1)."""
    return token_log_probabilities(forward, tokens_BS) if isinstance(forward, Forward) else forward(tokens_BS)


def quality(forward: Forward | Callable[[Tensor], Tensor], tokens_BS: Tensor, is_reply_BS: Tensor) -> Tensor:
    """Mean of -log p over the tokens that are to be learnt."""
    return mean_loss(token_scores(forward, tokens_BS), is_reply_BS)


def mean_loss(log_p: Tensor, is_reply_BS: Tensor) -> Tensor:
    """`quality` of given log-probabilities (B, S - 1)."""
    mask = is_reply_BS[:, 1:].to(log_p.dtype)
    return -(log_p * mask).sum() / mask.sum().clamp_min(1)


def policy_loss(
    forward: Forward | Callable[[Tensor], Tensor], joined_RS: Tensor, live_RS: Tensor, marginals_R: Tensor, replies: int
) -> Tensor:
    """-mean_i sum_j A_i^j / |r_i^j| log p(r_i^j | x_i)."""
    return mean_policy(token_scores(forward, joined_RS), live_RS, marginals_R, replies)


def mean_policy(log_p: Tensor, live_RS: Tensor, marginals_R: Tensor, replies: int) -> Tensor:
    """`policy_loss` of given log-probabilities (R, S - 1)."""
    mask = live_RS.to(log_p.dtype)
    mean = (log_p * mask).sum(-1) / mask.sum(-1).clamp_min(1)
    return -(marginals_R.to(mean.dtype) * mean).sum() / (len(log_p) // replies)


def make_micro_step(parts: Parts, replies: int) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Loss and backward of one micro-batch: adds to the gradients, gives Q and the policy term."""
    if isinstance(parts.forward, Forward) and parts.forward.joined is not None:
        return _make_fused_micro_step(parts, parts.forward, replies)

    def micro_step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        with region("learning"):
            q = quality(parts.forward, batch["tokens"], batch["is_reply"])
            (q * batch["share"]).backward()
            if parts.mode != "set_pg" or "joined" not in batch:
                return {"quality": q.detach(), "policy": torch.zeros_like(q)}
            policy = policy_loss(parts.forward, batch["joined"], batch["live"], batch["marginals"], replies)
            (parts.weight * batch["share"] * policy).backward()
        return {"quality": q.detach(), "policy": policy.detach()}

    return micro_step


def _make_fused_micro_step(
    parts: Parts, forward: Forward, replies: int
) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Texts and replies go through the model together: as many launches as for one of them."""
    from phasewise_studies.polychromic.model.fused_layers import fused_log_probabilities

    def micro_step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        texts = [batch["tokens"], *([batch["joined"]] if parts.mode == "set_pg" and "joined" in batch else [])]
        with region("learning"):
            log_p = fused_log_probabilities(forward, texts)
            q = mean_loss(log_p[0], batch["is_reply"])
            policy = torch.zeros_like(q)
            if len(texts) > 1:
                policy = mean_policy(log_p[1], batch["live"], batch["marginals"], replies)
            (batch["share"] * (q + parts.weight * policy)).backward()
        return {"quality": q.detach(), "policy": policy.detach()}

    return micro_step


def train_step(
    parts: Parts, micro_step: Callable[[dict[str, Tensor]], dict[str, Tensor]], batch: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Sample, score, learn, update. `batch`: tokens and is_reply (B, S'), and prompts, lengths, uniforms where replies are sampled.

    Gives the loss and its terms, the replies, and the adapters as they were when the replies were sampled.
    """
    parts.lora.gradient.zero_()
    before = parts.lora.flat.clone()
    scored = score(parts, batch["prompts"], batch["lengths"], batch["uniforms"]) if "prompts" in batch else None
    terms = [
        {name: term.clone() for name, term in micro_step(part).items()} for part in _micro_batches(parts, batch, scored)
    ]
    q = torch.stack([term["quality"] for term in terms]).mean()
    policy = torch.stack([term["policy"] for term in terms]).mean()
    with region("update"):
        parts.update.step()
    result = {"quality": q, "policy": policy, "loss": q + parts.weight * policy, "before": before}
    if scored is not None:
        if parts.mode == "faithful":
            result["loss"] = q - parts.weight * scored.diversity_P.mean()
        result |= {
            "diversity": scored.diversity_P,
            "marginals": scored.marginals_PN,
            "tokens": scored.replies.tokens_RT,
            "log_probabilities": scored.replies.log_probabilities_RT,
            "first": scored.replies.first_PV,
        }
    return result


def capture_micro_step(
    parts: Parts, replies: int, example: dict[str, Tensor]
) -> tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]:
    """The micro-step as one CUDA graph, and "" or the reason why it runs eagerly."""
    captured = capture(make_micro_step(parts, replies), _first_micro_batch(parts, example, replies))
    parts.lora.gradient.zero_()
    return captured.call, captured.reason


def _first_micro_batch(parts: Parts, batch: dict[str, Tensor], replies: int) -> dict[str, Tensor]:
    """A micro-batch of the shapes that steps will have; the replies in it are all zeros."""
    scored = None
    if "prompts" in batch:
        prompts, uniforms = batch["prompts"], batch["uniforms"]
        blank = Replies(
            tokens_RT=torch.zeros_like(uniforms, dtype=torch.long),
            log_probabilities_RT=torch.zeros_like(uniforms),
            first_PV=uniforms.new_zeros(len(prompts), 1),
        )
        marginals = torch.zeros(len(prompts), replies, device=prompts.device, dtype=torch.float32)
        scored = Scored(replies=blank, diversity_P=marginals[:, 0], marginals_PN=marginals)
    return next(_micro_batches(parts, batch, scored))


def _micro_batches(parts: Parts, batch: dict[str, Tensor], scored: Scored | None) -> Iterator[dict[str, Tensor]]:
    total = len(batch["tokens"])
    wide = torch.promote_types(parts.lora.flat.dtype, torch.float32)
    for start in range(0, total, parts.micro):
        some = slice(start, start + parts.micro)
        part = {"tokens": batch["tokens"][some], "is_reply": batch["is_reply"][some]}
        # the share of the whole batch, which a replayed graph must read from memory
        part["share"] = torch.full((), len(part["tokens"]) / total, dtype=wide, device=batch["tokens"].device)
        if scored is not None and parts.mode == "set_pg":
            n = scored.marginals_PN.shape[1]
            drawn = scored.replies.tokens_RT[start * n : (start + parts.micro) * n]
            part["joined"], part["live"] = join_replies(
                batch["prompts"][some], batch["lengths"][some], drawn, parts.ends
            )
            part["marginals"] = scored.marginals_PN[some].flatten()
        yield part


def _join(found: list[Scored]) -> Scored:
    return Scored(
        replies=Replies(
            tokens_RT=torch.cat([one.replies.tokens_RT for one in found]),
            log_probabilities_RT=torch.cat([one.replies.log_probabilities_RT for one in found]),
            first_PV=torch.cat([one.replies.first_PV for one in found]),
        ),
        diversity_P=torch.cat([one.diversity_P for one in found]),
        marginals_PN=torch.cat([one.marginals_PN for one in found]),
    )
