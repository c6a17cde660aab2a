"""What a clean worker does: it knows an export only by its folder, and runs it through the script beside it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import torch

from phasewise.bench.commands import WorkerState
from phasewise.bench.stepper import Bench
from phasewise.export.answers import Compared
from phasewise.export.compare import compare_outputs
from phasewise.model.discover import load_module
from phasewise.model.workload import Unsupported
from phasewise.records.errors import UserError
from phasewise.records.plan import Allowance
from phasewise.records.validate import TensorError


@dataclass(frozen=True, kw_only=True)
class ExportBench(Bench):
    """A loaded export with its inputs in place, whose call is a step."""

    script: ModuleType
    manifest: dict[str, Any]
    model: Any
    ring: list[Any]


def bench_export(folder: str, inputs: list[str], threads: int, source: str, root: str) -> ExportBench:
    """Load the export in `folder` by its own script.

    `source` is imported first where the manifest names custom operators, which its program registers, and only there.

    Raises:
        Unsupported: the runtime has no kernel for the model.
        UserError: the script refuses the files.
    """
    script = _import_script(Path(folder) / "infer.py")
    try:
        manifest = script.read_manifest(Path(folder))
        if manifest["operators"]:
            load_module(source, Path(root))
        model = script.load(Path(folder), manifest, threads=threads)
    # how a script refuses its files
    except SystemExit as refused:
        raise UserError(str(refused)) from refused
    except _refusals() as error:
        raise Unsupported(f"the runtime refuses the model: {' '.join(str(error).split())[:240]}") from error
    ring = [script.place(read_arrays(Path(path)), manifest) for path in inputs]
    return ExportBench(
        device=torch.device(manifest["device"]),
        step=lambda index: script.call(model, ring[index % len(ring)]),
        script=script,
        manifest=manifest,
        model=model,
        ring=ring,
    )


def compare_all(worker: WorkerState, expected: list[str], allowance: dict[str, Any]) -> dict[str, Any]:
    """The outputs of every batch beside those in the files `expected`, as `Compared`."""
    bench = worker.bench
    assert isinstance(bench, ExportBench), "it was opened as one"
    limits = msgspec.convert(allowance, Allowance)
    errors: list[TensorError] = []
    for step, (placed, path) in enumerate(zip(bench.ring, expected, strict=True)):
        outputs = bench.script.read(bench.script.call(bench.model, placed), bench.manifest)
        errors += compare_outputs(outputs, read_arrays(Path(path)), limits, step)
    return msgspec.to_builtins(Compared(errors=tuple(errors)))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, which may hold no pickle."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _import_script(path: Path) -> ModuleType:
    script = ModuleType("phasewise_export_script")
    script.__file__ = str(path)
    # not imported: the bytecode would lie beside the script, as a file of the export
    exec(compile(path.read_bytes(), path, "exec"), script.__dict__)
    return script


def _refusals() -> tuple[type[Exception], ...]:
    """How ONNX Runtime, where the script has imported it, says that it can't run a model."""
    if "onnxruntime" not in sys.modules:
        return ()
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented

    return (Fail, InvalidGraph, NotImplemented)
