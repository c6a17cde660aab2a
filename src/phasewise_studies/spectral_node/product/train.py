"""A training in a folder: started, gone on with, stopped by Ctrl-C without loss."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise import Program
from phasewise.records.errors import UserError
from phasewise_studies.spectral_node.data import normalise
from phasewise_studies.spectral_node.product.fit import Settings, open_training, place_table
from phasewise_studies.spectral_node.product.run_folder import CHECKPOINT, Checkpoint, check_same, load, save
from phasewise_studies.spectral_node.spectra_file import SpectraFile

Say = Callable[[str], None]


def train(
    spectra: SpectraFile, run: Path, options: dict[str, Any], settings: Settings, *, device: torch.device, say: Say
) -> None:
    """Train up to `options["epochs"]` epochs in all, saving each `options["save_every"]`; say what happens.

    Raises:
        UserError: the folder holds a training with other options, or the loss is lost.
    """
    epochs = options["epochs"]
    normal = normalise(spectra)
    program = open_training(normal.levels, normal.wavelengths, settings, device=device)
    losses: list[float] = []
    if (run / CHECKPOINT).exists():
        before = load(run)
        check_same(run, before.options, options)
        program.load(before.state)
        losses = before.losses
        say(f"{run} goes on after {len(losses)} epochs")
    run.mkdir(parents=True, exist_ok=True)
    placed = place_table(program, normal.table)
    with _until_interrupted() as stopped:
        while len(losses) < epochs and not stopped():
            block = min(options["save_every"] - len(losses) % options["save_every"], epochs - len(losses))
            found = _train_block(program, placed, block, stopped)
            _refuse_lost(len(losses), found)
            losses += found
            save(run, Checkpoint(options=options, state=dict(program.state()), losses=losses, spectra=spectra))
            say(f"epoch {len(losses)} of {epochs}: loss {losses[-1]:.5f}, saved")
        if stopped():
            say("stopped; the same command goes on from here")
    if len(losses) >= epochs:
        say(f"{len(losses)} epochs are done; give more --epochs to go on")


def _train_block(
    program: Program, placed: Mapping[str, Tensor], count: int, stopped: Callable[[], bool]
) -> list[float]:
    """Losses of `count` epochs, or fewer where somebody asks to stop; read once, so that a GPU need not wait for each."""
    found = []
    for _ in range(count):
        found.append(program.step(placed)["loss"].clone())
        if stopped():
            break
    return torch.stack(found).tolist()


def _refuse_lost(done: int, losses: list[float]) -> None:
    for k, loss in enumerate(losses, done + 1):
        if not math.isfinite(loss):
            raise UserError(
                f"epoch {k}: the loss is {loss} and the networks are lost; they are not saved, the last checkpoint stays; use "
                "smaller --metric-rate and --flow-rate in another --out"
            )


@contextmanager
def _until_interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, instead of a KeyboardInterrupt; a second one ends the program."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
