"""Write the model of a run's last checkpoint as a folder that needs nothing of this project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from phasewise_studies.polychromic.product.open_model import open_run
from phasewise_studies.polychromic.product.run_folder import load_checkpoint, read_options

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "tokenizer.model",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
# how generate.py makes a prompt of a text
PROMPTING = "generate.json"


def export_run(out: Path, into: Path) -> list[str]:
    """The merged model of the last checkpoint in `out`, in the precision that it was trained in; the names of all files in `into`.

    Both ways of decoding write model.safetensors, config.json, generation_config.json, the tokenizer's files, generate.py and
    generate.json, which says whether a prompt goes through the chat template, as the training data did. With --decode own
    generate.py needs torch and safetensors, and next_token.pt2 is a torch.export program of any number of prompts of any
    length; with --decode library, for any kind of model, generate.py needs transformers and there is no program.

    The folder `adapter` holds the adapters alone, for PEFT.

    Raises:
        UserError: there is no whole checkpoint, or its model has gone.
    """
    saved, plain = load_checkpoint(out), read_options(out)
    user, _ = open_run(plain, torch.device("cpu"))
    user.lora.copy_from(saved["lora"])
    into.mkdir(parents=True, exist_ok=True)
    user.export(into)
    for name in TOKENIZER_FILES:
        if (Path(plain["model"]) / name).exists():
            shutil.copyfile(Path(plain["model"]) / name, into / name)
    (into / PROMPTING).write_text(json.dumps({"chat": plain.get("chat", False)}) + "\n")
    return sorted(path.name for path in into.iterdir())
