"""Held-out evaluation of a run: loss, diversity and samples of the model before and after its training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.polychromic import trainer
from phasewise_studies.polychromic.model.diversity import diversity_closed
from phasewise_studies.polychromic.model.replies import is_live
from phasewise_studies.polychromic.product.open_model import open_run
from phasewise_studies.polychromic.product.run_folder import load_checkpoint, read_options
from phasewise_studies.polychromic.product.text_encoder import open_encoder
from phasewise_studies.polychromic.product.texts import Example, make_batch, read_examples
from phasewise_studies.polychromic.product.user_model import UserModel

EVALUATION = "evaluation.json"
# examples at a time, and prompts whose replies are shown
TOGETHER, SHOWN = 4, 3


def evaluate_run(out: Path, data: Path, device: torch.device, say: Callable[[str], None]) -> dict[str, Any]:
    """Both models on the examples of `data`: the same prompts, the same uniform numbers; written to `evaluation.json` in `out`.

    Loss: mean of -log p in nats over all tokens to be learnt. Diversity: 1 - mean cosine of the replies to a prompt, mean over
    the prompts.

    Raises:
        UserError: `data` is what was trained on, or cannot be read; or `out` holds no whole run.
    """
    saved, plain = load_checkpoint(out), read_options(out)
    if data.resolve() == Path(plain["data"]):
        raise UserError(f"--data {data} is what the run was trained on; give examples that it has not seen.")
    # dropout is for training
    user, tokenizer = open_run({**plain, "dropout": 0.0, "micro": TOGETHER, "accumulate": 1}, device)
    embed = open_encoder(plain["encoder"], tokenizer, user, device)
    examples = read_examples(data, tokenizer, user.ends[0], plain["length"]).examples
    found: dict[str, Any] = {"steps": int(saved["done"]), "examples": len(examples)}
    for name in ("before", "after"):
        if name == "after":
            # fresh adapters change nothing, so that "before" is the model as it came
            user.lora.copy_from(saved["lora"])
        found[name] = _evaluate(user, tokenizer, embed, examples, plain, device)
        say(f"{name}: loss {found[name]['loss']:.4f}, diversity {found[name]['diversity']:.4f}")
        for prompt, replies in found[name]["samples"]:
            say(f"  {prompt!r}")
            for reply in replies:
                say(f"    {reply!r}")
    (out / EVALUATION).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


@torch.no_grad()
def _evaluate(
    user: UserModel, tokenizer: Any, embed: trainer.Embed, examples: list[Example], plain: dict[str, Any],
    device: torch.device,
) -> dict[str, Any]:  # fmt: skip
    loss, tokens, diversity = 0.0, 0, 0.0
    samples: list[tuple[str, list[str]]] = []
    for start in range(0, len(examples), TOGETHER):
        real = min(TOGETHER, len(examples) - start)
        # decoding is for a fixed number of prompts: the last are filled up, and what fills them is not counted
        some = [examples[(start + index) % len(examples)] for index in range(TOGETHER)]
        batch = make_batch(
            some, start, plain["seed"], replies=plain["replies"], tokens=plain["tokens"], prompt_length=plain["prompt"],
            length=plain["length"],
        )  # fmt: skip
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        learnt = batch["is_reply"][:real, 1:]
        log_p = trainer.token_scores(user.forward, batch["tokens"])[:real]
        loss -= float((log_p * learnt).sum())
        tokens += int(learnt.sum())
        drawn = user.generate(batch["prompts"], batch["lengths"], batch["uniforms"]).tokens_RT
        live = is_live(drawn, user.ends)
        e = embed(drawn, live)
        diversity += float(diversity_closed(e.view(TOGETHER, plain["replies"], -1))[0][:real].sum())
        for index in range(min(real, SHOWN - len(samples))):
            samples.append(
                (tokenizer.decode(some[index].prompt), _decode(tokenizer, drawn, live, index, plain["replies"]))
            )
    return {"loss": loss / max(tokens, 1), "diversity": diversity / len(examples), "samples": samples}


def _decode(tokenizer: Any, drawn: Tensor, live: Tensor, prompt: int, replies: int) -> list[str]:
    rows = range(prompt * replies, (prompt + 1) * replies)
    return [tokenizer.decode(drawn[row][live[row]].tolist(), skip_special_tokens=True) for row in rows]
