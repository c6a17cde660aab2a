"""The clean worker: it knows an export only by its folder, runs it through the script beside it, and times it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import torch

from phasewise.bench.stepper import Bench
from phasewise.bench.timing import spare_heap
from phasewise.export.compare import compare_outputs
from phasewise.export.serve import serve
from phasewise.export.stopwatch import stopwatch
from phasewise.model.discover import load_module
from phasewise.model.workload import Unsupported
from phasewise.records.plan import Allowance


@dataclass
class Reloaded:
    """A loaded export with its inputs in place; the only state of the worker."""

    script: ModuleType
    manifest: dict[str, Any]
    model: Any
    ring: list[Any]


def reload_export(folder: Path, inputs: Sequence[Path], *, threads: int, source: str, root: Path) -> Reloaded:
    """Load the export in `folder` by its own script.

    `source` is imported first where the manifest names custom operators, which its program registers, and only there.

    Raises:
        Unsupported: the runtime has no kernel for the model.
    """
    script = _import_script(folder / "infer.py")
    manifest = script.read_manifest(folder)
    if manifest["operators"]:
        load_module(source, root)
    refusals = _refusals(manifest["target"])
    try:
        model = script.load(folder, manifest, threads=threads)
    except refusals as error:
        raise Unsupported(f"the runtime refuses the model: {' '.join(str(error).split())[:240]}") from error
    return Reloaded(script, manifest, model, [script.place(read_arrays(path), manifest) for path in inputs])


def run_all(reloaded: Reloaded) -> list[dict[str, np.ndarray]]:
    """Outputs of every batch by name."""
    script = reloaded.script
    return [script.read(script.call(reloaded.model, placed), reloaded.manifest) for placed in reloaded.ring]


def time_block(reloaded: Reloaded, steps: int) -> float:
    """Seconds of `steps` calls, host to host, over the ring of batches."""
    script, ring = reloaded.script, reloaded.ring
    device = torch.device(reloaded.manifest["device"])
    return stopwatch(
        Bench(device=device, step=lambda index: script.call(reloaded.model, ring[index % len(ring)])), steps
    )


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


def _refusals(target: str) -> tuple[type[Exception], ...]:
    """How the target's runtime says that it can't run a model."""
    if target != "onnx":
        return ()
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented

    return (Fail, InvalidGraph, NotImplemented)


def main(read_fd: int, write_fd: int) -> None:
    """Serve `open` and `block`."""
    held: list[Reloaded] = []

    def open_(
        folder: str,
        inputs: list[str],
        expected: list[str],
        allowance: dict[str, Any],
        threads: int,
        source: str,
        root: str,
    ) -> dict[str, Any]:
        reloaded = reload_export(
            Path(folder), [Path(path) for path in inputs], threads=threads, source=source, root=Path(root)
        )
        held[:] = [reloaded]
        limits = msgspec.convert(allowance, Allowance)
        errors = [
            error
            for step, outputs in enumerate(run_all(reloaded))
            for error in compare_outputs(outputs, read_arrays(Path(expected[step])), limits, step)
        ]
        spare_heap()
        return {"errors": msgspec.to_builtins(errors)}

    serve({"open": open_, "block": lambda steps: {"seconds": time_block(held[0], steps)}}, read_fd, write_fd)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
