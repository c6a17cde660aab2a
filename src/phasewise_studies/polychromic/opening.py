"""Open what the options of a run name: its model with fresh adapters, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from phasewise_studies.polychromic.sampling import Sampling
from phasewise_studies.polychromic.shared import Sizes
from phasewise_studies.polychromic.user_parts import Tuning, UserModel, open_tokenizer
from phasewise_studies.polychromic.users import open_model


def open_run(plain: dict[str, Any], device: torch.device) -> tuple[UserModel, Any]:
    """The model with its adapters, and its tokenizer."""
    model = Path(plain["model"])
    tokenizer = open_tokenizer(model)
    sizes = Sizes(
        prompts=plain["micro"] * plain["accumulate"],
        replies=plain["replies"],
        prompt_length=plain["prompt"],
        tokens=plain["tokens"],
    )
    user = open_model(
        model, sizes, Sampling(plain["temperature"], plain["top_p"]), device, torch.bfloat16 if plain["dtype"] == "bfloat16" else torch.float32,
        Tuning(rank=plain["rank"], alpha=plain["alpha"], dropout=plain["dropout"], seed=plain["seed"],
            checkpointing=plain.get("checkpointing", False)),
        decode=plain["decode"], end=tokenizer.eos_token_id, length=plain["length"],
    )  # fmt: skip
    return user, tokenizer
