"""What a worker does that holds a case's eager module: it steps the module, describes it and writes exports of it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.export import ExportedProgram

from phasewise.bench.case import BuiltCase, build_case
from phasewise.bench.commands import WorkerState
from phasewise.bench.stepper import Bench, do_nothing
from phasewise.bench.timing import freeze_heap
from phasewise.export.answers import About, Written
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
from phasewise.export.formats import FORMATS
from phasewise.export.formats.names import Names
from phasewise.model.workload import Unsupported
from phasewise.records.export import ExportStatus
from phasewise.records.plan import VariantPlan

# the example that is captured, and two batches that it has not seen
BATCHES = 3
PACKAGES = ("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "torch-tensorrt")


@dataclass(frozen=True, kw_only=True)
class ModuleBench(Bench):
    """A module to export, whose call is a step."""

    made_from: BuiltCase
    # None: the program has none
    module: Flat | None
    # of each batch
    inputs: tuple[dict[str, torch.Tensor], ...] = ()
    results: tuple[dict[str, torch.Tensor], ...] = ()

    @cached_property
    def exported(self) -> ExportedProgram:
        """The captured program; raises Unsupported."""
        assert self.module is not None, "what has no module is not written"
        return capture(self.module, [_copies(batch) for batch in self.inputs])


def bench_module(plan: dict[str, Any], case: str, root: str, shape: None) -> ModuleBench:
    """Build a case and run its module on fresh batches."""
    built = build_case(msgspec.convert(plan, VariantPlan), case, Path(root), ring=BATCHES)
    if built.program.module is None:
        return ModuleBench(device=built.device, step=lambda index: None, made_from=built, module=None)
    placed = [built.place(index) for index in range(len(built.batches))]
    inputs = tuple(name_inputs(batch) for batch in placed)
    module = flatten(built.program.module, placed[0])
    # a module may write to what it is called with
    ring = [_copies(batch) for batch in inputs]
    return ModuleBench(
        device=built.device,
        step=lambda index: module.call_named(*ring[index % len(ring)]),
        wait=built.program.sync or do_nothing,
        made_from=built,
        module=module,
        inputs=inputs,
        results=tuple(_run(module, batch) for batch in inputs),
    )


def describe_module(worker: WorkerState, folder: str) -> dict[str, Any]:
    """What the record and the manifests say about the module, as `Described`.

    `inputs-<k>.npz` and `outputs-<k>.npz` of each batch are written into `folder`.
    """
    bench = _bench_of(worker)
    if bench.module is None:
        return {"module": None}
    for index, (inputs, results) in enumerate(zip(bench.inputs, bench.results, strict=True)):
        write_arrays(Path(folder) / f"inputs-{index}.npz", to_arrays(inputs))
        write_arrays(Path(folder) / f"outputs-{index}.npz", to_arrays(results))
    about = About(
        inputs=_tensors(bench.inputs),
        outputs=_tensors(bench.results),
        device=bench.device.type,
        matmul_precision=torch.get_float32_matmul_precision(),
        threads=torch.get_num_threads(),
        versions=_versions(),
        batches=len(bench.inputs),
    )
    return {"module": msgspec.to_builtins(about)}


def write_format(worker: WorkerState, format: str, folder: str) -> dict[str, Any]:
    """Write one export with its script into the empty `folder`; what became of it as `Written`."""
    missing = FORMATS[format].missing()
    try:
        written = (
            Written(status=ExportStatus.SKIPPED, reason=missing)
            if missing
            else _write(_bench_of(worker), format, Path(folder))
        )
    except Unsupported as error:
        written = Written(status=ExportStatus.UNSUPPORTED, reason=str(error))
    # after a compiler
    freeze_heap()
    return msgspec.to_builtins(written)


def _write(bench: ModuleBench, format: str, folder: Path) -> Written:
    exporter, exported = FORMATS[format], bench.exported
    inputs, results = bench.inputs[0], bench.results[0]
    dtypes = tuple(dtype_name(tensor.dtype) for tensor in (*inputs.values(), *results.values()))
    exporter.write(exported, Names(tuple(inputs), tuple(results), dtypes), folder)
    shutil.copyfile(Path(__file__).parent / "scripts" / "infer.py", folder / "infer.py")
    foreign = foreign_operators(exported)
    # whoever loads a graph with custom operators has to import what registers them
    registering = (bench.made_from.functions.module.__name__,) if foreign else ()
    return Written(model=exporter.FILE, operators=foreign, imports=(*exporter.IMPORTS, *registering))


def _bench_of(worker: WorkerState) -> ModuleBench:
    assert isinstance(worker.bench, ModuleBench), "it was opened as one"
    return worker.bench


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


def _tensors(batches: Sequence[Mapping[str, torch.Tensor]]) -> tuple[dict[str, str], ...]:
    described = describe(batches[0], batches[1:])
    return tuple(
        {"name": name, "dtype": dtype_name(tensor.dtype), "shape": described[name].partition("[")[2].removesuffix("]")}
        for name, tensor in batches[0].items()
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
