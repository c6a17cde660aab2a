"""The folder of a run: settings.json, words.json, checkpoint.safetensors and log.jsonl. Nothing in it is a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.resnet_bk.data import BYTES
from phasewise_studies.resnet_bk.model import Sizes

SETTINGS, WORDS, CHECKPOINT, LOG = "settings.json", "words.json", "checkpoint.safetensors", "log.jsonl"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may not change between a run and its resumption."""

    text_sha256: str
    held_out: float
    # bytes and words
    vocabulary: int
    width: int
    layers: int
    length: int
    # rows a step, and the micro-batches that it is made of
    batch: int
    accumulate: int
    # float32, bfloat16 or float16
    precision: str
    seed: int

    def sizes(self) -> Sizes:
        """Those of the model, which is the causal one: the other sees the token that it has to predict."""
        return Sizes(self.vocabulary, self.width, self.layers, self.length, causal=True)


def open_run(out: Path, settings: Settings, words: list[str]) -> None:
    """Begin a run in `out`, or find that it was begun with the same settings.

    Raises:
        UserError: it was begun with others, or `out` holds something else.
    """
    if (out / SETTINGS).exists():
        before = read_settings(out)
        for name in Settings.__struct_fields__:
            old, new = getattr(before, name), getattr(settings, name)
            if old != new:
                raise UserError(
                    f"{out} was begun with {name} {old!r}, now it is {new!r}; use the same, or another --out"
                )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is no run of this command (no {SETTINGS}); give --out a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    _write(out / WORDS, json.dumps(words))
    _write(out / SETTINGS, json.dumps(msgspec.to_builtins(settings), indent=1) + "\n")


def read_settings(out: Path) -> Settings:
    """What the run was begun with.

    Raises:
        UserError: there is no such file, or it does not hold them.
    """
    try:
        return msgspec.json.decode((out / SETTINGS).read_bytes(), type=Settings)
    except OSError as error:
        raise UserError(f"{out} is no run: it has no {SETTINGS}; name the folder that train --out wrote") from error
    except msgspec.DecodeError as error:
        raise UserError(f"{out / SETTINGS} can't be read ({error}); put the file that the run wrote back") from error


def read_words(out: Path, settings: Settings) -> list[str]:
    """The vocabulary's words, the most frequent first.

    Raises:
        UserError: the file is missing or not that of this run.
    """
    try:
        words = msgspec.json.decode((out / WORDS).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{out / WORDS} can't be read ({error}); the train command writes it again") from error
    if BYTES + len(words) != settings.vocabulary:
        raise UserError(
            f"{out / WORDS} has {len(words)} words, the model was trained with {settings.vocabulary - BYTES}; the train command writes it again"
        )
    return words


def save(out: Path, state: Mapping[str, Tensor], step: int) -> None:
    """Parameters, moments and scaler after `step` steps, whole or not at all."""
    from safetensors.torch import save_file

    # gradients are made anew by the next step; a view of padded memory is written without the padding
    tensors = {
        name: tensor.detach().cpu().clone().contiguous()
        for name, tensor in state.items()
        if not name.startswith("grad/")
    }
    part = out / f"{CHECKPOINT}.part"
    save_file(tensors, part, metadata={"step": str(step)})
    part.replace(out / CHECKPOINT)


def load(out: Path) -> tuple[dict[str, Tensor], int]:
    """What `save` was given.

    Raises:
        UserError: there is no checkpoint, or it is not whole.
    """
    from safetensors import SafetensorError, safe_open

    path = out / CHECKPOINT
    if not path.is_file():
        raise UserError(f"{out} has no {CHECKPOINT}; train until the first one is written (--save-every, or Ctrl-C)")
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step = int((file.metadata() or {})["step"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(
            f"{path} is cut off, or no checkpoint of this command ({error}); put a copy back, or delete it to begin anew"
        ) from error
    return found, step


def load_parameters(out: Path, settings: Settings) -> tuple[dict[str, Tensor], int]:
    """The model's parameters by name, and the steps that they were trained for.

    Raises:
        UserError: there are none, or they are not those of `settings`.
    """
    found, step = load(out)
    check_shapes(found, settings, out)
    # names with a slash are moments and the scaler
    return {name: tensor for name, tensor in found.items() if "/" not in name}, step


def check_shapes(found: Mapping[str, Tensor], settings: Settings, out: Path) -> None:
    """Raises UserError where a checkpoint lacks what a model of `settings` has."""
    from phasewise_studies.resnet_bk.model import LanguageModel, Ways

    with torch.device("meta"):
        wanted = {name: tensor.shape for name, tensor in LanguageModel(settings.sizes(), Ways()).named_parameters()}
    for name, shape in wanted.items():
        if name not in found or found[name].shape != shape:
            have = list(found[name].shape) if name in found else "missing"
            raise UserError(
                f"{out / CHECKPOINT}: {name} is {have}, {SETTINGS} says {list(shape)}; put the files of one run together again"
            )


def append_log(out: Path, line: Mapping[str, Any]) -> None:
    """One line of log.jsonl."""
    with (out / LOG).open("a") as log:
        log.write(json.dumps(line) + "\n")


def cut_log(out: Path, step: int) -> None:
    """Drop the lines of steps that no checkpoint holds, which are done again."""
    if (out / LOG).exists():
        lines = (out / LOG).read_text().splitlines(keepends=True)
        _write(out / LOG, "".join(line for line in lines if json.loads(line)["step"] <= step))


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)
