"""The folder of a run: options, checkpoint and log, and what a resumed run may change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from phasewise.records.errors import UserError

CHECKPOINT, OPTIONS, LOG = "checkpoint.pt", "options.json", "log.jsonl"
# options that may differ between a run and its resumption
FREE = ("steps", "save_every", "device")
PATHS = ("model", "data")
# names of encoders that are no folders
ENCODERS = ("minilm", "own")


def remember(options: dict[str, Any], out: Path, device: torch.device) -> dict[str, Any]:
    """Write the options down, or compare them with those that the run was started with.

    Paths are written whole, so that an export may be called from another folder; `dtype` as it was chosen on the device that
    the run began on, so that a resumption or an export elsewhere does not choose again.

    Raises:
        UserError: an option that may not change did, or what is written there cannot be read.
    """
    plain = {name: _make_plain(name, value) for name, value in options.items() if name != "out"}
    plain["data_sha256"] = hashlib.sha256(Path(plain["data"]).read_bytes()).hexdigest()
    before = read_options(out) if (out / CHECKPOINT).exists() else {}
    if plain["dtype"] == "auto":
        began = before.get("dtype", "auto")
        plain["dtype"] = ("bfloat16" if device.type == "cuda" else "float32") if began == "auto" else began
    for name, value in plain.items():
        # runs of older versions: options that they had not, and paths and precisions as they were typed
        old = _make_plain(name, before.get(name, value))
        if name not in FREE and old != value and (name, old) != ("dtype", "auto"):
            raise UserError(
                f"{out} was started with {name} {old!r}, now it is {value!r}; use the same, or another --out."
            )
    write_options(plain, out)
    return plain


def _make_plain(name: str, value: Any) -> Any:
    """What JSON holds of an option; a folder or file by its whole path."""
    is_path = name in PATHS or (name == "encoder" and value not in ENCODERS)
    return str(Path(value).resolve()) if is_path else value


def write_options(plain: dict[str, Any], out: Path) -> None:
    """`options.json`, whole or not at all."""
    part = out / f"{OPTIONS}.part"
    part.write_text(json.dumps(plain, indent=1) + "\n")
    part.replace(out / OPTIONS)


def read_options(out: Path) -> dict[str, Any]:
    """What the run was started with.

    Raises:
        UserError: there is no such file, or no JSON object in it.
    """
    try:
        found = json.loads((out / OPTIONS).read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{out / OPTIONS} cannot be read ({error}): without it nobody knows what {CHECKPOINT} belongs to; put it back, or use another --out."
        ) from error
    if not isinstance(found, dict):
        raise UserError(f"{out / OPTIONS} holds {str(found)[:40]!r}; put the object that the run wrote back.")
    return found


def load_checkpoint(out: Path) -> dict[str, Any]:
    """The adapters, the optimizer's state and `done`.

    Raises:
        UserError: there is none, or it is not whole.
    """
    path = out / CHECKPOINT
    if not path.exists():
        raise UserError(f"--out {out} holds no checkpoint; run the training first.")
    # the list of a zip file's parts is at its end
    if not is_zipfile(path):
        raise UserError(f"{path} is cut off, or no checkpoint; put a copy back, or delete it to begin anew.")
    found = torch.load(path, weights_only=True)
    if not isinstance(found, dict) or not {"lora", "done"} <= found.keys():
        raise UserError(f"{path} is not a checkpoint of this training; put a copy back, or delete it to begin anew.")
    return found


def resume(update: Any, out: Path, say: Callable[[str], None]) -> int:
    """Load the checkpoint and cut the log to it; the number of steps done. What is dropped is said.

    Raises:
        UserError: the checkpoint is not whole.
    """
    log = out / LOG
    lines = log.read_text().splitlines() if log.exists() else []
    done = 0
    if (out / CHECKPOINT).exists():
        saved = load_checkpoint(out)
        update.load(saved)
        done = int(saved["done"])
    if len(lines) > done:
        say(
            f"{log} has {len(lines)} steps, of which {done} were saved: the others are done again, and their lines are dropped."
        )
        log.write_text("".join(f"{line}\n" for line in lines[:done]))
    return done


def save(update: Any, done: int, out: Path) -> None:
    """Write the adapters and the optimizer after `done` steps."""
    state = {name: tensor.cpu() for name, tensor in update.state().items() if not name.startswith("grad/")}
    part = out / f"{CHECKPOINT}.part"
    torch.save({**state, "done": torch.tensor(done)}, part)
    # a killed run never leaves half a checkpoint
    part.replace(out / CHECKPOINT)
