"""Export one variant: every planned format of every case, each in processes of its own; a failure is a result."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import msgspec

from phasewise.export.answers import About, Described
from phasewise.export.format import ExportedCase, describe_failure, export_format
from phasewise.records.base import find_case
from phasewise.records.export import Export, ExportResult, ExportStatus
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.records.validate import Outcome, Validation
from phasewise.store import digest
from phasewise.workers.arm import ArmProcesses, launch_case
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.scratch import make_scratch


def export_variant(
    plan: VariantPlan, gate: Validation | None, *, root: Path, folder: Path, machine: str, commit: str
) -> Export:
    """Write the planned exports into `folder/<case>/<format>/` and compare each with the eager module.

    A case whose validation is red or absent is skipped, as is all of a variant that is not timed here.
    """
    results: list[ExportResult] = []
    signature: dict[str, str] = {}
    versions: dict[str, str] = {}
    skipped = _reason_to_skip(plan)
    wanted = [case for case in plan.cases if plan.exported is None or case.case in plan.exported]
    for planned in () if skipped else wanted:
        shut = _red_gate(gate, planned.case)
        if shut:
            results += _same_for_all(plan, planned.case, ExportStatus.SKIPPED, shut)
            continue
        written, about = export_case(plan, planned, root, folder / planned.case)
        results += written
        if about is not None:
            versions |= about.versions
            signature |= _signature(planned.case, about)
    if results and not skipped and all(result.status is ExportStatus.SKIPPED for result in results):
        reasons = {result.reason for result in results}
        skipped = reasons.pop() if len(reasons) == 1 else ""
    return Export(
        workload=plan.workload, run=plan.run, variant=plan.variant, plan=digest(plan), machine=machine, commit=commit,
        results=tuple(results), signature=signature, versions=versions, skipped=skipped,
    )  # fmt: skip


def export_case(
    plan: VariantPlan, planned: PlannedCase, root: Path, folder: Path
) -> tuple[list[ExportResult], About | None]:
    """Results of one case in the plan's order of formats, and what its module looks like; None if it can't be built."""
    results: list[ExportResult] = []
    about: About | None = None
    # a cap on memory is meant for the program, not for the compilers that write its exports
    uncapped = msgspec.structs.replace(planned, memory_limit_bytes=None)
    whole = msgspec.structs.replace(plan, cases=(uncapped,))
    made = launch_case(whole, planned.case, root, make="phasewise.export.eager:bench_module")
    # as what it is timed beside; torch.export needs the compiler
    launch = replace(made, fresh=False, tooled=True)
    with ExitStack() as stack:
        scratch = stack.enter_context(make_scratch("export"))
        eager: ArmProcesses | None = None
        for format in plan.exporters:
            # a format that took the worker down costs only itself
            if eager is None or not eager.is_alive():
                eager = stack.enter_context(closing(ArmProcesses(launch)))
                try:
                    eager.open()
                    (told,) = eager.apply("phasewise.export.eager:describe_module", Described, folder=str(scratch))
                except ProcessFailed as died:
                    status, reason = describe_failure(died.failure, root)
                    return results + _same_for_all(plan, planned.case, status, reason, results), about
                about = told.module
            if about is None:
                missing = "the program has no module"
                return _same_for_all(plan, planned.case, ExportStatus.SKIPPED, missing), None
            case = ExportedCase(plan=plan, name=planned.case, root=root, scratch=scratch, about=about, eager=eager)
            results.append(export_format(case, format, folder / format))
        if any(result.files for result in results):
            shutil.copyfile(scratch / "inputs-0.npz", folder / "inputs.npz")
            shutil.copyfile(scratch / "outputs-0.npz", folder / "outputs.npz")
    return results, about


def _reason_to_skip(plan: VariantPlan) -> str:
    if plan.skip is not None:
        return plan.skip
    if plan.untimed is not None:
        return plan.untimed
    if plan.ranks > 1:
        return f"{plan.ranks} processes make one step; only a program of one process is exported"
    return "" if plan.exporters else "no export is planned for this variant"


def _red_gate(gate: Validation | None, case: str) -> str:
    """Why the gate keeps `case` out; "" if it is open."""
    found = find_case(gate, case)
    if found is None:
        return "skipped because it has not been validated"
    if found.outcome in (Outcome.FAIL, Outcome.SKIPPED):
        return f"skipped because validation ended in {found.outcome}: {found.message or 'no reason given'}"
    return ""


def _same_for_all(
    plan: VariantPlan, case: str, status: ExportStatus, reason: str, done: list[ExportResult] | None = None
) -> list[ExportResult]:
    """One result with the same reason for every format that is not `done`."""
    finished = {result.format for result in done or ()}
    return [
        ExportResult(case=case, format=format, status=status, reason=reason)
        for format in plan.exporters
        if format not in finished
    ]


def _signature(case: str, about: About) -> dict[str, str]:
    """`<case>/inputs/<name>` and `<case>/outputs/<name>` -> "float32[4, 8]"; sizes that vary are `*`."""
    return {
        f"{case}/{side}/{item['name']}": f"{item['dtype']}[{item['shape']}]"
        for side, items in (("inputs", about.inputs), ("outputs", about.outputs))
        for item in items
    }
