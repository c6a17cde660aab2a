"""One export of one case: write it, reload it in a clean process, compare, time, describe."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phasewise.export.manifest import list_files, write_manifest
from phasewise.export.timing import time_pair
from phasewise.export.worker import Refused, Worker
from phasewise.records.export import ExportFile, ExportResult, ExportStatus
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import Outcome, TensorError


@dataclass(frozen=True, kw_only=True)
class Case:
    """An open case: the worker that holds its eager module, and what that worker said about it."""

    plan: VariantPlan
    name: str
    root: Path
    # inputs-<k>.npz and outputs-<k>.npz
    scratch: Path
    about: dict[str, Any]
    eager: Worker


def export_target(case: Case, target: str, folder: Path) -> ExportResult:
    """The export in `folder`, which is emptied first and holds nothing after a failure."""
    start = time.perf_counter()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        result = _write_and_check(case, target, folder)
    except Refused as refused:
        shutil.rmtree(folder)
        result = ExportResult(case=case.name, target=target, status=refused.status, reason=refused.message)
    return msgspec.structs.replace(result, seconds=time.perf_counter() - start)


def _write_and_check(case: Case, target: str, folder: Path) -> ExportResult:
    written = case.eager.ask("write", target=target, folder=str(folder))
    fields = _manifest_fields(case, target, written)
    # the script reads the manifest, so a first one is written before anything is known about the numbers
    write_manifest(folder, {**fields, "status": "unchecked", "errors": []})
    with Worker(
        "phasewise.export.reload", environment=case.plan.environment, root=case.root,
        timeout_s=case.plan.budget.timeout_s,
    ) as clean:  # fmt: skip
        errors = _compare(case, clean, folder)
        status, reason = _judge(errors, written["operators"])
        write_manifest(folder, {**fields, "status": status.value, "errors": msgspec.to_builtins(errors)})
        eager_s: tuple[float, ...] = ()
        export_s: tuple[float, ...] = ()
        if status is ExportStatus.OK and target == "onnx" and case.about["device"] != "cpu":
            reason = "checked in ONNX Runtime on the CPU, so it is not timed against the GPU"
        elif status is ExportStatus.OK:
            eager_s, export_s = time_pair(_block(case.eager), _block(clean), case.plan.budget, case.plan.seed)
    return ExportResult(
        case=case.name, target=target, status=status, reason=reason, files=_files(folder, case.root), errors=errors,
        eager_s=eager_s, export_s=export_s,
    )  # fmt: skip


def _compare(case: Case, clean: Worker, folder: Path) -> tuple[TensorError, ...]:
    batches = range(case.about["batches"])
    answer = clean.ask(
        "open",
        folder=str(folder),
        inputs=[str(case.scratch / f"inputs-{index}.npz") for index in batches],
        expected=[str(case.scratch / f"outputs-{index}.npz") for index in batches],
        allowance=msgspec.to_builtins(case.plan.allowance),
        threads=case.about["threads"],
        source=case.plan.source,
        root=str(case.root),
    )
    return msgspec.convert(answer["errors"], tuple[TensorError, ...])


def _judge(errors: tuple[TensorError, ...], operators: list[str]) -> tuple[ExportStatus, str]:
    wrong = [error for error in errors if error.outcome is not Outcome.PASS]
    if wrong:
        first = wrong[0]
        size = "" if first.max_abs is None else f", by {first.max_abs:.3g}"
        return (
            ExportStatus.MISMATCH,
            f"{first.name!r} of batch {first.step} differs from the eager module{size}: {first.message}",
        )
    if operators:
        return (
            ExportStatus.OK,
            f"runs only where the custom operator {', '.join(operators)} is registered (manifest: imports)",
        )
    return ExportStatus.OK, ""


def _block(worker: Worker) -> Callable[[int], float]:
    def block(steps: int) -> float:
        return float(worker.ask("block", steps=steps)["seconds"])

    return block


def _manifest_fields(case: Case, target: str, written: dict[str, Any]) -> dict[str, Any]:
    plan = case.plan
    planned = plan.case(case.name)
    return {
        "workload": plan.workload, "run": plan.run, "variant": plan.variant, "case": case.name, "target": target,
        "shape": planned.shape, "switches": planned.switches,
        "model": written["model"], "operators": written["operators"], "imports": written["imports"],
        "inputs": case.about["inputs"], "outputs": case.about["outputs"],
        "device": case.about["device"], "matmul_precision": case.about["matmul_precision"],
        "versions": case.about["versions"], "tier": plan.tier,
        "allowance": {"rtol": plan.allowance.rtol, "atol": plan.allowance.atol},
    }  # fmt: skip


def _files(folder: Path, root: Path) -> tuple[ExportFile, ...]:
    """The files as the record names them: below the project's folder where they lie in it."""
    inside = folder.resolve().is_relative_to(root.resolve())
    top = folder.resolve().relative_to(root.resolve()).as_posix() if inside else folder.name
    return tuple(msgspec.structs.replace(file, path=f"{top}/{file.path}") for file in list_files(folder))
