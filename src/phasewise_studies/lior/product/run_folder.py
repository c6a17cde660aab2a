"""The folder of a training: what it was begun with (run.json), its newest checkpoint, and a line of numbers for every window."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.lior.data import MAPS, STATE
from phasewise_studies.lior.product.files import read_notes, read_tensors, write_tensors
from phasewise_studies.lior.product.settings import WindowReport
from phasewise_studies.lior.product.trainer import METRICS
from phasewise_studies.lior.window import Sizes

SCHEMA = 1
FORM, CHECKPOINT, CURVES = "run.json", "checkpoint.safetensors", "curves.jsonl"


def open_run(folder: Path, form: Mapping[str, Any]) -> None:
    """Make the folder of a training, or find the one that was begun with the same.

    :raises UserError: the folder holds something else, or a training that was begun with another value of something
    """
    path = folder / FORM
    if not path.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder}: it is there and holds no training (no {FORM}); give another --out.")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schema": SCHEMA, **form}, indent=1) + "\n")
        return
    begun = read_form(folder)
    for name, value in form.items():
        if begun.get(name) != value:
            raise UserError(
                f"{folder}: this training was begun with {name} {begun.get(name)!r}, and now it is {value!r}; "
                "give what it was begun with, or another --out."
            )


def read_form(folder: Path) -> dict[str, Any]:
    """What a training was begun with.

    :raises UserError: there is no training, or one that this version doesn't read
    """
    path = folder / FORM
    if not path.is_file():
        raise UserError(f"{folder}: no training is there (no {FORM}); give the --out of one.")
    try:
        form = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path}: not sound JSON ({error}); begin again in another --out.") from error
    if not isinstance(form, dict) or form.get("schema") != SCHEMA:
        raise UserError(f"{path}: its schema is not {SCHEMA}, the only one that is read; begin again in another --out.")
    return form


def read_sizes_of(folder: Path) -> Sizes:
    """The sizes of a training."""
    form = read_form(folder)
    return Sizes(**{size.name: form[size.name] for size in fields(Sizes)})


def save(folder: Path, windows: int, state: Mapping[str, Tensor], maps: Mapping[str, Tensor]) -> None:
    """The checkpoint after `windows` windows, in place of the one before.

    :raises UserError: a number is not finite: nothing is written
    """
    tensors = {name: state[name] for name in STATE} | {name: maps[name] for name in MAPS}
    bad = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise UserError(
            f"{folder}: after {windows} windows {bad[0]!r} is not finite, and nothing was written over the last sound checkpoint; bring "
            "tokens, targets and values to a size near 1, and begin again in another --out."
        )
    write_tensors(folder / CHECKPOINT, tensors, {"windows": str(windows)})


def read_checkpoint(folder: Path) -> tuple[int, dict[str, Tensor]]:
    """Windows done, and the tensors after them.

    :raises UserError: there is none, or a broken one
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        raise UserError(f"{folder}: no checkpoint is there yet; train first.")
    found = read_tensors(path)
    missing = {*STATE, *MAPS} - set(found)
    windows = read_notes(path).get("windows", "")
    if missing or not windows.isdigit():
        raise UserError(f"{path}: not a checkpoint of this command; remove it to begin again.")
    return int(windows), found


@dataclass
class Curves:
    """A line for every window in curves.jsonl; numbers stay on the device until `flush`, so that no window waits."""

    folder: Path
    per_epoch: int
    waiting: list[tuple[int, Tensor]] = field(default_factory=list)

    def cut(self, windows: int) -> None:
        """Drop the lines of windows behind a checkpoint: they will be run again."""
        path = self.folder / CURVES
        if path.is_file():
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(lines[:windows]))

    def note(self, window: WindowReport) -> None:
        """Keep the numbers of a window; a graph's report is overwritten by the next one, a stack of it is not."""
        self.waiting.append((window.index, torch.stack([window.report[name] for name in METRICS])))

    def flush(self) -> dict[str, Any] | None:
        """Write what waits, in one copy from the device; the last line, or None if nothing waited.

        :raises UserError: a number is not finite
        """
        if not self.waiting:
            return None
        numbers = torch.stack([found for _, found in self.waiting]).double().cpu()
        lines = []
        for (index, _), found in zip(self.waiting, numbers.tolist(), strict=True):
            named = dict(zip(METRICS, found, strict=True))
            lines.append({"window": index, "epoch": index // self.per_epoch, **named})
        self.waiting.clear()
        sound = torch.isfinite(numbers).flatten(1).all(1)
        if not bool(sound.all()):
            first = lines[int((~sound).nonzero()[0])]
            raise UserError(
                f"{self.folder}: window {first['window']} has LIoR {first['lior']}, which is not finite; bring tokens, targets and values to a "
                "size near 1, and begin again in another --out (the checkpoint there is of an earlier window)."
            )
        with (self.folder / CURVES).open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return lines[-1]
