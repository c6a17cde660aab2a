"""A run of training that can be stopped at any time: it saves itself, goes on with the same command, and ends with a checkpoint.

`<out>.resume.safetensors` is the state between saves; `<out>.safetensors` and `<out>.json` are written at the end, and it goes away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise.store import write_bytes
from phasewise_studies.painn.layout import Sizes, Weights
from phasewise_studies.painn.product.files import beside, compare_settings, read_json, refuse_existing
from phasewise_studies.painn.product.trainer import Trainer, measure_errors, place_frames
from phasewise_studies.painn.weights import checkpoint_file, save_model

Part = Mapping[str, Tensor]
# energy in meV and forces in meV/A by molecule, and how many frames they stand on
Errors = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is, and what it must be given again to go on."""

    # digests of what it learns from and of what it starts from; "" where that is drawn
    frames: str
    base: str = ""
    steps: int
    # frames of each molecule in a step
    each: int
    # what Adam's rate comes down from
    rate: float
    seed: int


def progress_file(out: Path) -> Path:
    """Where a run that is not done keeps its state."""
    return beside(checkpoint_file(out, ".json").with_suffix(""), ".resume.safetensors")


def find_finished(out: Path, settings: Settings) -> Errors | None:
    """The errors of the run that wrote the checkpoint at `out`, None where none is there.

    Raises:
        UserError: the checkpoint, or the state of an unfinished run, is of something else.
    """
    description, progress = checkpoint_file(out, ".json"), progress_file(out)
    if progress.exists():
        compare_settings(read_progress(progress)[0], asdict(settings), progress)
        return None
    if not description.exists():
        refuse_existing(checkpoint_file(out, ".safetensors"))
        return None
    found = read_json(description)
    if not isinstance(found.get("training"), dict) or not isinstance(found.get("held_out"), dict):
        refuse_existing(description)
    compare_settings(found["training"], asdict(settings), description)
    return found["held_out"]


def read_progress(path: Path) -> tuple[dict[str, Any], int, dict[str, Tensor]]:
    """Settings, steps done, and state of an unfinished run; raises UserError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return json.loads(about["settings"]), int(about["step"]), state
    except (SafetensorError, KeyError, ValueError) as error:
        raise UserError(f"{path}: no state of a run can be read there ({error}); delete it to begin again") from error


def train(
    molecules: Mapping[str, tuple[Part, Part | None]], start: Weights, sizes: Sizes, settings: Settings, *, out: Path,
    device: torch.device, about: Mapping[str, Any], elements: set[int], save_every: int = 500, report: Callable[[str], None] = print,
) -> Errors:  # fmt: skip
    """Train, or go on; write the checkpoint, and return the errors on held-out frames by molecule.

    Args:
        molecules: by name frames to train on and frames held out (or None), as `split_frames` gives them.
        start: weights to begin with, `atomref` among them, which stays.
        about: what the checkpoint's JSON tells besides settings and errors. elements: what the model may meet.

    Raises:
        UserError: another run's files lie at `out`.
    """
    if (finished := find_finished(out, settings)) is not None:
        report(f"{checkpoint_file(out, '.json')}: this run is done; nothing was changed")
        report_table(finished, report)
        return finished
    atomref = start["atomref"]
    parts = [place_frames(part, atomref, device) for part, _ in molecules.values()]
    trainer = Trainer(
        parts, sizes, start, each=settings.each, steps=settings.steps, rate=settings.rate, seed=settings.seed
    )
    call, reason = trainer.make_ready()
    report(reason or "one CUDA graph a step")
    before = measure_all(trainer, molecules, atomref)
    progress, begin = progress_file(out), 0
    if progress.exists():
        _, begin, state = read_progress(progress)
        trainer.load(state)
        report(f"{progress}: goes on after step {begin} of {settings.steps}")
    began = time.perf_counter()
    for step in range(begin, settings.steps):
        trainer.set_rate(step)
        loss = call(trainer.draw(step))
        done = step + 1
        if done % max(1, settings.steps // 20) == 0:
            report(f"step {done}: loss {float(loss):.5f}, {time.perf_counter() - began:.0f} s")
        if done % save_every == 0 and done < settings.steps:
            save_progress(progress, trainer, settings, done)
            report(f"step {done}: saved")
    errors: Errors = {
        name: {**found, "before": before[name]} for name, found in measure_all(trainer, molecules, atomref).items()
    }
    told = {**about, "training": asdict(settings), "held_out": errors}
    save_model(out, {**trainer.average, "atomref": atomref}, sizes, told, elements)
    progress.unlink(missing_ok=True)
    report_table(errors, report)
    return errors


def save_progress(path: Path, trainer: Trainer, settings: Settings, step: int) -> None:
    """Write the state whole or not at all."""
    from safetensors.torch import save

    state = {name: tensor.cpu().contiguous() for name, tensor in trainer.tensors().items()}
    write_bytes(save(state, {"settings": json.dumps(asdict(settings)), "step": str(step)}), path)


def measure_all(trainer: Trainer, molecules: Mapping[str, tuple[Part, Part | None]], atomref: Tensor) -> Errors:
    """Errors of the averaged weights on what was held out of each molecule."""
    errors: Errors = {}
    for name, (_, held) in molecules.items():
        if held is None:
            continue
        frames = place_frames(held, atomref, trainer.device)
        energy, force = measure_errors(trainer.average, trainer.sizes, frames)
        errors[name] = {
            "energy_mae_meV": round(energy, 2), "force_mae_meV_per_A": round(force, 2), "frames": len(frames.energies),
        }  # fmt: skip
    return errors


def report_table(errors: Errors, report: Callable[[str], None]) -> None:
    """A line for each molecule: errors before and after."""
    for name, found in errors.items():
        was = found["before"]
        report(
            f"{name}, {found['frames']} frames held out: energy {was['energy_mae_meV']:.1f} -> {found['energy_mae_meV']:.1f} meV, "
            f"forces {was['force_mae_meV_per_A']:.1f} -> {found['force_mae_meV_per_A']:.1f} meV/A"
        )
