"""A run's trained weights as folders that run without this project, each compared with the model in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phasewise.export import scripts
from phasewise.export.call import describe, dtype_name, flatten, named_leaves, to_arrays, write_arrays
from phasewise.export.capture import capture
from phasewise.export.formats import FORMATS
from phasewise.export.formats.names import Names
from phasewise.export.manifest import write_manifest
from phasewise.model.workload import Unsupported
from phasewise.records.errors import UserError
from phasewise_studies.resnet_bk.experts import run_wide
from phasewise_studies.resnet_bk.inference import Forward, Streaming
from phasewise_studies.resnet_bk.model import LanguageModel, Ways, make_model
from phasewise_studies.resnet_bk.product import standalone
from phasewise_studies.resnet_bk.product.run_folder import WORDS, Settings, load_parameters, read_settings, read_words

CPU = torch.device("cpu")
# of the largest entry: what sums in another order move
ALLOWED = 1e-4


@dataclass(frozen=True, kw_only=True)
class Exported:
    """One folder that was asked for: what its script errs by, or why it could not be written."""

    name: str
    error: float | None
    reason: str = ""


def export(run: Path, into: Path, targets: tuple[str, ...], say: Callable[[str], None]) -> tuple[Exported, ...]:
    """`forward` (whole texts) and `decode` (token by token) of the last checkpoint for each target, as `into/<module>-<target>`.

    Each folder has the model, infer.py, which runs it on an .npz, and manifest.json; `decode` also generate.py with words.json.

    Raises:
        UserError: there is no checkpoint, or `into` exists.
    """
    settings = read_settings(run)
    # the file is copied; one that is not this run's is refused
    read_words(run, settings)
    parameters, trained = load_parameters(run, settings)
    if into.exists():
        raise UserError(f"{into} exists; name a new folder with --into, or remove it")
    model = make_model(settings.sizes(), Ways(experts=run_wide), parameters, CPU).eval().requires_grad_(False)
    found = []
    for name, module, batches in (
        ("forward", Forward(model, iterated=True), _whole_texts(settings)),
        ("decode", Streaming(model), _single_tokens(settings, model)),
    ):
        for target in targets:
            folder = into / f"{name}-{target}"
            folder.mkdir(parents=True)
            if name == "decode":
                shutil.copyfile(Path(str(standalone.__file__)), folder / "generate.py")
                shutil.copyfile(run / WORDS, folder / WORDS)
            result = _write(folder, module, batches, target, settings, trained)
            if result.reason:
                shutil.rmtree(folder)
            found.append(result)
            say(f"{folder}: {_tell(result)}")
    return tuple(found)


def _write(
    folder: Path,
    module: torch.nn.Module,
    batches: list[dict[str, Tensor]],
    target: str,
    settings: Settings,
    trained: int,
) -> Exported:
    exporter, first = FORMATS[target], batches[0]
    if missing := exporter.missing():
        return Exported(name=folder.name, error=None, reason=missing)
    flat = flatten(module, first)
    wanted = [dict(named_leaves(flat.call_named(*batch.values()))) for batch in batches]
    inputs, outputs = _tensors(batches), _tensors(wanted)
    try:
        # sizes that differ among the batches stay free
        program = capture(flat, [list(batch.values()) for batch in batches])
        dtypes = tuple(item["dtype"] for item in (*inputs, *outputs))
        exporter.write(program, Names(tuple(first), tuple(wanted[0]), dtypes), folder)
    except Unsupported as error:
        return Exported(name=folder.name, error=None, reason=str(error))
    shutil.copyfile(Path(str(scripts.__file__)).with_name("infer.py"), folder / "infer.py")
    fields = {
        "target": target, "model": exporter.FILE, "imports": list(exporter.IMPORTS), "device": "cpu",
        "matmul_precision": torch.get_float32_matmul_precision(), "inputs": inputs, "outputs": outputs,
        "sizes": {"layers": settings.layers, "length": settings.length, "vocabulary": settings.vocabulary},
        "trained_steps": trained, "text_sha256": settings.text_sha256, "versions": {"torch": torch.__version__},
    }  # fmt: skip
    write_manifest(folder, fields)
    return _check(folder, batches, wanted)


def _check(folder: Path, batches: list[dict[str, Tensor]], wanted: list[dict[str, Tensor]]) -> Exported:
    """Run the script as a user would, and compare what it wrote."""
    worst = 0.0
    for batch, expected in zip(batches, wanted, strict=True):
        with tempfile.TemporaryDirectory() as scratch:
            paths = [Path(scratch) / name for name in ("inputs.npz", "outputs.npz")]
            write_arrays(paths[0], to_arrays(batch))
            command = [sys.executable, str(folder.resolve() / "infer.py"), *map(str, paths)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
            if done.returncode:
                line = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
                return Exported(name=folder.name, error=None, reason=f"its script failed: {line}")
            with np.load(paths[1]) as arrays:
                for name, tensor in expected.items():
                    gap = np.abs(arrays[name] - tensor.numpy()).max() / np.abs(tensor.numpy()).max()
                    worst = max(worst, float(gap))
    if not worst <= ALLOWED:
        return Exported(
            name=folder.name,
            error=worst,
            reason=f"it is off by {worst:.1e} of the largest entry, {ALLOWED:.0e} is allowed",
        )
    return Exported(name=folder.name, error=worst)


def _tell(result: Exported) -> str:
    return f"not written: {result.reason}" if result.reason else f"off by {result.error:.1e} of the largest entry"


def _whole_texts(settings: Settings) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        {"tokens": torch.randint(0, settings.vocabulary, (rows, settings.length), generator=generator)}
        for rows in (2, 3)
    ]


def _single_tokens(settings: Settings, model: LanguageModel) -> list[dict[str, Tensor]]:
    """Two batches, each with the features that a token before it left."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for rows in (2, 3):
        tokens = torch.randint(0, settings.vocabulary, (2, rows), generator=generator)
        start = torch.zeros(settings.layers, rows, 2)
        carried = Streaming(model)(tokens[0], torch.tensor([0]), start)["features"]
        found.append({"token": tokens[1], "position": torch.tensor([1]), "carried": carried})
    return found


def _tensors(batches: list[dict[str, Tensor]]) -> list[dict[str, str]]:
    """Name, dtype and shape as a manifest has them, `*` where sizes differ."""
    shapes = describe(batches[0], batches[1:])
    return [
        {"name": name, "dtype": dtype_name(tensor.dtype), "shape": shapes[name].partition("[")[2].removesuffix("]")}
        for name, tensor in batches[0].items()
    ]
