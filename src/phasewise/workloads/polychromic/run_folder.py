"""The folder of a run: options, checkpoint and log, and what a resumed run may change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from phasewise.records.errors import UserError

CHECKPOINT, OPTIONS, LOG = "checkpoint.pt", "options.json", "log.jsonl"
# options that may differ between a run and its resumption
FREE = ("steps", "save_every", "device")


def remember(options: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write the options down, or compare them with those that the run was started with."""
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items() if name != "out"}
    plain["data_sha256"] = hashlib.sha256(Path(plain["data"]).read_bytes()).hexdigest()
    if (out / CHECKPOINT).exists():
        before = json.loads((out / OPTIONS).read_text())
        for name, value in plain.items():
            if name not in FREE and before.get(name) != value:
                raise UserError(
                    f"{out} was started with {name} {before.get(name)!r}, now it is {value!r}; use the same, or another --out."
                )
    (out / OPTIONS).write_text(json.dumps(plain, indent=1) + "\n")
    return plain


def resume(update: Any, out: Path) -> int:
    """Load the checkpoint and cut the log to it; the number of steps done."""
    if not (out / CHECKPOINT).exists():
        (out / LOG).unlink(missing_ok=True)
        return 0
    saved = torch.load(out / CHECKPOINT, weights_only=True)
    update.load(saved)
    done = int(saved["done"])
    lines = (out / LOG).read_text().splitlines()[:done]
    (out / LOG).write_text("".join(f"{line}\n" for line in lines))
    return done


def save(update: Any, done: int, out: Path) -> None:
    """Write the adapters and the optimizer after `done` steps."""
    state = {name: tensor.cpu() for name, tensor in update.state().items() if not name.startswith("grad/")}
    part = out / f"{CHECKPOINT}.part"
    torch.save({**state, "done": torch.tensor(done)}, part)
    # a killed run never leaves half a checkpoint
    part.replace(out / CHECKPOINT)
