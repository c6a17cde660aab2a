"""A Hugging Face model folder and a JSONL file, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from phasewise_studies.polychromic.model.hugging_face import make_library_model
from phasewise_studies.polychromic.model.weights import TINY, ModelShape, draw_weights

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "one",
    "red",
    "fox",
    "run",
    "far",
    "away",
    "from",
    "its",
    "den",
    "while",
    "rain",
    "fell",
]


def write_tiny_model(folder: Path, ends: int | list[int] = 2, shape: ModelShape = TINY) -> Path:
    """A random model, a Llama by default, of 193 words with a tokenizer that splits at spaces and names token 2 as the end of a text; the model knows `ends`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {name: i for i, name in enumerate(["<pad>", "<unk>", "</s>", *WORDS])}
    vocabulary |= {f"w{i}": i for i in range(len(vocabulary), shape.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    model = make_library_model(draw_weights(shape).to("cpu", torch.float32))
    model.config.eos_token_id = model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)
    return folder


def write_examples(path: Path, count: int = 5) -> Path:
    """Prompts and replies from the same few words."""
    lines = [{"prompt": " ".join(WORDS[i : i + 4]), "reply": " ".join(WORDS[i + 4 : i + 9])} for i in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
