"""The folder of a training: one file with networks, optimizer, known spectra and options, replaced whole at each save."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.spectral_node.product.compress import NAMES
from phasewise_studies.spectral_node.spectra_file import SpectraFile

CHECKPOINT, LOSSES = "checkpoint.safetensors", "losses.csv"
# options that may differ between a training and its resumption
FREE = ("epochs", "save_every", "device")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A training as it was saved."""

    options: dict[str, Any]
    # networks, gradients and Adam's moments, by name
    state: dict[str, Tensor]
    losses: list[float]
    spectra: SpectraFile

    def networks(self) -> dict[str, Tensor]:
        """The two networks, in float64."""
        return {name: self.state[name].double() for name in sorted(NAMES)}


def describe_options(data: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered of a training: its options, and what the data file holds rather than where it is."""
    return {**options, "data": hashlib.sha256(data.read_bytes()).hexdigest()}


def save(run: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint and the losses; a killed training leaves the one before."""
    from safetensors.torch import save_file

    spectra = checkpoint.spectra
    tensors = {f"state/{name}": value.detach().cpu().contiguous() for name, value in checkpoint.state.items()}
    tensors |= {
        "data/concentrations": spectra.concentrations,
        "data/channels": spectra.channels,
        "data/absorbance": spectra.absorbance,
        "losses": torch.tensor(checkpoint.losses, dtype=torch.float64),
    }
    about = {"options": json.dumps(checkpoint.options), "quantity": spectra.quantity}
    part = run / f"{CHECKPOINT}.part"
    # gradients and moments may share memory, which safetensors refuses
    save_file({name: value.clone() for name, value in tensors.items()}, part, metadata=about)
    part.replace(run / CHECKPOINT)
    with (run / LOSSES).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("epoch", "loss"))
        writer.writerows(enumerate(checkpoint.losses, 1))


def load(run: Path) -> Checkpoint:
    """The checkpoint of a folder.

    Raises:
        UserError: there is none, it is cut off, or it is of something else.
    """
    from safetensors import SafetensorError, safe_open

    path = run / CHECKPOINT
    if not path.is_file():
        raise UserError(f"{run}: it holds no {CHECKPOINT}; train first, with --out {run}")
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(
            f"{path}: it is cut off or no safetensors file; put a copy back, or delete it and train anew"
        ) from error
    state = {name.removeprefix("state/"): value for name, value in tensors.items() if name.startswith("state/")}
    lacking = ({"data/concentrations", "data/channels", "data/absorbance", "losses"} - tensors.keys()) | (
        NAMES - state.keys()
    )
    if lacking or not {"options", "quantity"} <= about.keys():
        raise UserError(f"{path}: it is no checkpoint of this training; put a copy back, or delete it and train anew")
    spectra = SpectraFile(
        quantity=about["quantity"], concentrations=tensors["data/concentrations"], channels=tensors["data/channels"],
        absorbance=tensors["data/absorbance"],
    )  # fmt: skip
    return Checkpoint(
        options=json.loads(about["options"]), state=state, losses=tensors["losses"].tolist(), spectra=spectra
    )


def check_same(run: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with other options than a training was started with.

    Raises:
        UserError: one that may not change did.
    """
    for name, value in now.items():
        if name not in FREE and before.get(name) != value:
            told = "other data" if name == "data" else f"{name.replace('_', '-')} {before.get(name)}, now it is {value}"
            raise UserError(f"{run}: it was started with {told}; use the same, or another --out")
