"""What the trainer needs of a user's model, whichever way it is opened, and the tokens that end its replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import Lora
from phasewise_studies.polychromic.model.replies import Replies


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a model is adapted: rank and weight of the adapters, dropout at their inputs, seed of their first values."""

    rank: int
    alpha: float
    dropout: float
    seed: int = 0
    # keep the layers' inputs only, and compute the rest again in the backward pass
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class UserModel:
    """What the trainer needs of a model."""

    forward: Forward | Callable[[Tensor], Tensor]
    lora: Lora
    generate: Callable[[Tensor, Tensor, Tensor], Replies]
    # the tokens that end a reply, the one that is learnt first
    ends: tuple[int, ...]
    # vectors of the tokens (V, D)
    table: Tensor
    # writes the merged model, and the adapters beside it
    export: Callable[[Path], None]
    note: str


def find_ends(model: Any, end: int | None) -> tuple[int, ...]:
    """Every token that ends a text, by the generation settings, else the model's, else the tokenizer's `end`.

    A chat model has several, the end of a turn and that of a text: the one that its tokenizer names comes first, and is what
    learnt replies end with. A tokenizer whose end the model does not know is passed over.

    Raises:
        UserError: none of the three names one.
    """
    found = model.generation_config.eos_token_id
    found = getattr(model.config, "eos_token_id", None) if found is None else found
    found = end if found is None else found
    if found is None or found == []:
        raise UserError(
            "model and tokenizer name no end of text; set eos_token_id in generation_config.json, or eos_token in tokenizer_config.json."
        )
    ends = [int(one) for one in found] if isinstance(found, list | tuple) else [int(found)]
    return tuple(sorted(ends, key=lambda one: one != end))


def open_tokenizer(path: Path) -> Any:
    """The tokenizer beside a model.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"model {path}: its tokenizer cannot be loaded ({shorten(str(error), 100)}); "
            "give a Hugging Face model folder with tokenizer.json."
        ) from error


def refuse_long(model: Any, tokens: int) -> None:
    """A model was trained for so many positions; some have a table of them, whose end is an error in the middle of a step.

    Raises:
        UserError: it has fewer than `tokens`.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and positions < tokens:
        raise UserError(
            f"the model has {positions} positions, and {tokens} tokens are wanted; give --length, and --prompt plus --tokens, of at most {positions}."
        )
