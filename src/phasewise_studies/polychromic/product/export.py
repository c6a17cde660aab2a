"""What is written out: the merged model as a torch.export program, and as a Hugging Face folder with a script beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from phasewise_studies.polychromic.model.hugging_face import describe_config
from phasewise_studies.polychromic.model.next_token import NextToken
from phasewise_studies.polychromic.model.weights import Weights, unpack

SCRIPT, PROGRAM = "generate.py", "next_token.pt2"


def export_program(weights: Weights) -> torch.export.ExportedProgram:
    """`NextToken` for any number of prompts of any length: prompts (P, S) padded on the right, lengths (P,) -> logits (P, V)."""
    # of two, since export takes a size of one for a constant
    example = (torch.zeros(2, 8, dtype=torch.long), torch.full((2,), 8))
    rows, length = torch.export.Dim("rows", min=1), torch.export.Dim("length", min=1)
    return torch.export.export(
        NextToken(weights),
        example,
        dynamic_shapes={"prompts": {0: rows, 1: length}, "lengths": {0: rows}},
        strict=False,
    )


def write_model(weights: Weights, folder: Path, **extra: Any) -> list[Path]:
    """`model.safetensors`, `config.json` and `generate.py`, which needs torch and safetensors only; `extra` goes into the config."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    # rows of packed tensors share memory, which safetensors refuses
    state = {name: tensor.detach().cpu().clone() for name, tensor in unpack(weights).items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = describe_config(weights.shape, weights.embed_VD.dtype, **extra)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copyfile(Path(__file__).with_name("standalone.py"), folder / SCRIPT)
    return [folder / name for name in ("model.safetensors", "config.json", SCRIPT)]


def carry_facts(config: Any, ends: tuple[int, ...]) -> dict[str, Any]:
    """What the weights do not say of a model: the tokens that begin, end and fill a text, and how many positions it knows."""
    found = {name: getattr(config, name, None) for name in ("bos_token_id", "pad_token_id", "max_position_embeddings")}
    return {name: value for name, value in found.items() if value is not None} | {"eos_token_id": write_ends(ends)}


def write_ends(ends: tuple[int, ...]) -> int | list[int]:
    """As Hugging Face writes them: one number, or a list."""
    return ends[0] if len(ends) == 1 else list(ends)


def write_generation(settings: Any, ends: tuple[int, ...], folder: Path) -> None:
    """`generation_config.json` with the ends that the model was trained with."""
    plain = {**settings.to_diff_dict(), "eos_token_id": write_ends(ends)}
    (folder / "generation_config.json").write_text(json.dumps(plain, indent=2) + "\n")
