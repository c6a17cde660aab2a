"""One export of one case: write it, reload it in a clean process, compare, time, describe."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phasewise.export.answers import About, Compared, Written
from phasewise.export.manifest import list_files, write_manifest
from phasewise.export.timing import time_pair
from phasewise.records.export import ExportFile, ExportResult, ExportStatus
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import Outcome, TensorError
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import ArmProcesses, Launch
from phasewise.workers.failure import ProcessFailed


@dataclass(frozen=True, kw_only=True)
class ExportedCase:
    """An open case: the worker that steps its eager module, and what that worker said about it."""

    plan: VariantPlan
    name: str
    root: Path
    # inputs-<k>.npz and outputs-<k>.npz
    scratch: Path
    about: About
    eager: ArmProcesses


def export_format(case: ExportedCase, format: str, folder: Path) -> ExportResult:
    """The export in `folder`, which is emptied first and holds nothing after a failure."""
    start = time.perf_counter()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        result = _write_and_check(case, format, folder)
    except ProcessFailed as died:
        status, reason = describe_failure(died.failure, case.root)
        result = ExportResult(case=case.name, format=format, status=status, reason=reason)
    if not result.files:
        shutil.rmtree(folder)
    return msgspec.structs.replace(result, seconds=time.perf_counter() - start)


def describe_failure(failure: Failure, root: Path) -> tuple[ExportStatus, str]:
    """What the record says of a worker that could not do its work; it names paths below the project's folder."""
    status = ExportStatus.UNSUPPORTED if failure.reason is Reason.UNSUPPORTED else ExportStatus.FAILED
    return status, failure.message.replace(f"{root.resolve()}/", "")


def _write_and_check(case: ExportedCase, format: str, folder: Path) -> ExportResult:
    arguments = {"format": format, "folder": str(folder)}
    (written,) = case.eager.apply("phasewise.export.eager:write_format", Written, **arguments)
    if written.status is not ExportStatus.OK:
        return ExportResult(case=case.name, format=format, status=written.status, reason=written.reason)
    fields = _manifest_fields(case, format, written)
    # the script reads the manifest, so a first one is written before anything is known about the numbers
    write_manifest(folder, {**fields, "status": "unchecked", "errors": []})
    with contextlib.closing(ArmProcesses(launch_clean(case, folder))) as clean:
        errors = _compare(case, clean)
        status, reason = _judge(errors, written.operators)
        write_manifest(folder, {**fields, "status": status.value, "errors": msgspec.to_builtins(errors)})
        eager_s: tuple[float, ...] = ()
        export_s: tuple[float, ...] = ()
        if status is ExportStatus.OK and format == "onnx" and case.about.device != "cpu":
            reason = "checked in ONNX Runtime on the CPU, so it is not timed against the GPU"
        elif status is ExportStatus.OK:
            eager_s, export_s = time_pair(case.eager, clean, case.plan.budget, case.plan.seed, device=case.about.device)
    return ExportResult(
        case=case.name, format=format, status=status, reason=reason, files=_files(folder, case.root), errors=errors,
        eager_s=eager_s, export_s=export_s,
    )  # fmt: skip


def launch_clean(case: ExportedCase, folder: Path) -> Launch:
    """A process that has nothing of the workload, and the export from its folder."""
    arguments = {
        "folder": str(folder), "inputs": _list_files(case, "inputs"), "threads": case.about.threads,
        "source": case.plan.source, "root": str(case.root),
    }  # fmt: skip
    return Launch(
        to_open={
            "make": "phasewise.export.reload:bench_export", "arguments": arguments, "device": case.about.device,
        },
        environment=case.plan.environment, fresh=False, tooled=True, folder=case.root, timeout_s=case.plan.budget.timeout_s,
    )  # fmt: skip


def _compare(case: ExportedCase, clean: ArmProcesses) -> tuple[TensorError, ...]:
    clean.open()
    (compared,) = clean.apply(
        "phasewise.export.reload:compare_all", Compared, expected=_list_files(case, "outputs"),
        allowance=msgspec.to_builtins(case.plan.allowance),
    )  # fmt: skip
    return compared.errors


def _list_files(case: ExportedCase, side: str) -> list[str]:
    return [str(case.scratch / f"{side}-{index}.npz") for index in range(case.about.batches)]


def _judge(errors: tuple[TensorError, ...], operators: tuple[str, ...]) -> tuple[ExportStatus, str]:
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


def _manifest_fields(case: ExportedCase, format: str, written: Written) -> dict[str, Any]:
    plan = case.plan
    planned = plan.case(case.name)
    return {
        "workload": plan.workload, "run": plan.run, "variant": plan.variant, "case": case.name, "target": format,
        "shape": planned.shape, "switches": planned.switches,
        "model": written.model, "operators": written.operators, "imports": written.imports,
        "inputs": case.about.inputs, "outputs": case.about.outputs,
        "device": case.about.device, "matmul_precision": case.about.matmul_precision,
        "versions": case.about.versions, "tier": plan.tier,
        "allowance": {"rtol": plan.allowance.rtol, "atol": plan.allowance.atol},
    }  # fmt: skip


def _files(folder: Path, root: Path) -> tuple[ExportFile, ...]:
    """The files as the record names them: below the project's folder where they lie in it."""
    inside = folder.resolve().is_relative_to(root.resolve())
    top = folder.resolve().relative_to(root.resolve()).as_posix() if inside else folder.name
    return tuple(msgspec.structs.replace(file, path=f"{top}/{file.path}") for file in list_files(folder))
