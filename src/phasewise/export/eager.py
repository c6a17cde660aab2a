"""The worker that holds the eager module: it writes the exports of one case and times itself."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.export import ExportedProgram

from phasewise.bench.case import BuiltCase, build_case
from phasewise.bench.stepper import Bench
from phasewise.bench.timing import spare_heap
from phasewise.export.call import (
    Flat,
    describe,
    dtype_name,
    flatten,
    name_inputs,
    named_leaves,
    to_arrays,
    write_arrays,
)
from phasewise.export.capture import capture, foreign_operators
from phasewise.export.serve import serve
from phasewise.export.stopwatch import stopwatch
from phasewise.export.targets import TARGETS
from phasewise.export.targets.names import Names
from phasewise.model.workload import Unsupported
from phasewise.records.plan import VariantPlan

# the example that is captured, and two batches that it has not seen
BATCHES = 3
PACKAGES = ("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "torch-tensorrt")


@dataclass
class Eager:
    """One open case; the only state of the worker."""

    opened: BuiltCase
    module: Flat
    inputs: list[dict[str, torch.Tensor]]
    outputs: list[dict[str, torch.Tensor]]
    exported: ExportedProgram | None = field(default=None)


def open_eager(plan: dict[str, Any], case: str, root: str) -> Eager | None:
    """Build the case and run its module on fresh batches; None where the program has no module."""
    opened = build_case(msgspec.convert(plan, VariantPlan), case, Path(root), ring=BATCHES)
    if opened.program.module is None:
        return None
    placed = [opened.place(index) for index in range(len(opened.batches))]
    inputs = [name_inputs(batch) for batch in placed]
    module = flatten(opened.program.module, placed[0])
    return Eager(opened, module, inputs, [_run(module, batch) for batch in inputs])


def save_arrays(eager: Eager, folder: Path) -> int:
    """Write `inputs-<k>.npz` and `outputs-<k>.npz` for each batch; returns their number."""
    for index, (inputs, outputs) in enumerate(zip(eager.inputs, eager.outputs, strict=True)):
        write_arrays(folder / f"inputs-{index}.npz", to_arrays(inputs))
        write_arrays(folder / f"outputs-{index}.npz", to_arrays(outputs))
    return len(eager.inputs)


def describe_eager(eager: Eager) -> dict[str, Any]:
    """What the record and the manifests say about the module."""
    return {
        "inputs": _tensors(eager.inputs),
        "outputs": _tensors(eager.outputs),
        "device": eager.opened.device.type,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "versions": _versions(),
    }


def write_target(eager: Eager, target: str, folder: Path) -> dict[str, Any]:
    """Write one export with its script into the empty `folder`; raises Unsupported."""
    exporter = TARGETS[target]
    missing = exporter.missing()
    if missing:
        return {"skipped": missing}
    if eager.exported is None:
        eager.exported = capture(eager.module, [_copies(batch) for batch in eager.inputs])
    inputs, outputs = eager.inputs[0], eager.outputs[0]
    dtypes = tuple(dtype_name(tensor.dtype) for tensor in (*inputs.values(), *outputs.values()))
    exporter.write(eager.exported, Names(tuple(inputs), tuple(outputs), dtypes), folder)
    shutil.copyfile(Path(__file__).parent / "scripts" / exporter.SCRIPT, folder / "infer.py")
    foreign = foreign_operators(eager.exported)
    # whoever loads a graph with custom operators has to import what registers them
    imports = [*exporter.IMPORTS, *([eager.opened.functions.module.__name__] if foreign else [])]
    # after a compiler
    spare_heap()
    return {"model": exporter.FILE, "operators": foreign, "imports": imports}


def time_block(eager: Eager, steps: int) -> float:
    """Seconds of `steps` calls of the module, host to host, over the ring of batches."""
    ring = [list(batch.values()) for batch in eager.inputs]
    wait = eager.opened.program.sync
    bench = Bench(device=eager.opened.device, step=lambda index: eager.module.call_named(*ring[index % len(ring)]))
    return stopwatch(bench if wait is None else replace(bench, wait=wait), steps)


def _run(module: Flat, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Outputs by name, from copies of the inputs, which a module may write to."""
    leaves = list(named_leaves(module.call_named(*_copies(inputs))))
    if not leaves:
        raise Unsupported("the module returns no tensor; exports return at least one")
    names = [name for name, _ in leaves]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Unsupported(f"two tensors of the module's result are called {twice[0]!r}; rename one")
    return {name: tensor.detach().clone() for name, tensor in leaves}


def _copies(inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in inputs.values()]


def _tensors(batches: Sequence[Mapping[str, torch.Tensor]]) -> list[dict[str, str]]:
    described = describe(batches[0], batches[1:])
    return [
        {"name": name, "dtype": dtype_name(tensor.dtype), "shape": described[name].partition("[")[2].removesuffix("]")}
        for name, tensor in batches[0].items()
    ]


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def main(read_fd: int, write_fd: int) -> None:
    """Serve `open`, `write` and `block`."""
    held: list[Eager] = []

    def open_(plan: dict[str, Any], case: str, root: str, scratch: str) -> dict[str, Any]:
        eager = open_eager(plan, case, root)
        if eager is None:
            return {"skipped": "the program has no module"}
        held[:] = [eager]
        return {**describe_eager(eager), "batches": save_arrays(eager, Path(scratch))}

    serve(
        {
            "open": open_,
            "write": lambda target, folder: write_target(held[0], target, Path(folder)),
            "block": lambda steps: {"seconds": time_block(held[0], steps)},
        },
        read_fd,
        write_fd,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
