"""Make the plans of all workloads that the configuration names."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from phasewise.model.apart import call_apart
from phasewise.model.check import check_workload
from phasewise.model.configuration import Configuration, WorkloadOptions, choose_budget
from phasewise.model.discover import find_module_file, load_workload, program_name, sibling_file
from phasewise.model.freshness import find_closure
from phasewise.model.layout import Layout
from phasewise.model.promises import FILE as PROMISES
from phasewise.model.promises import read_promises
from phasewise.model.stack import stack_variants
from phasewise.model.workload import Workload
from phasewise.plan.keep import keep_prepare, keep_variant
from phasewise.plan.run_plan import make_run_plan, tell_targets
from phasewise.plan.variant import RunContext, plan_variant, shape_at
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.records.plan import PreparePlan, RunPlan, VariantPlan
from phasewise.store import digest_of

LOCK = "requirements.lock"
# what reads records and makes others, or pages, of them
READERS = ("analyse/**/*", "report/**/*", "stats/**/*", "run.py")


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One workload on one machine, planned."""

    run_plan: RunPlan
    prepare: PreparePlan
    variants: tuple[VariantPlan, ...]


def plan_runs(configuration: Configuration, root: Path, machine: Machine) -> tuple[PlannedRun, ...]:
    """Plan every workload of `configuration` that is meant for `machine`, each file of a user in a process apart; imports no torch.

    Raises:
        PlanError: the first mistake found, in one sentence.
    """
    if configuration.device == "cuda" and machine.kind != "cuda":
        raise PlanError(
            "device: 'cuda' is asked for and no NVIDIA GPU can be seen; install the driver, or set device: cpu"
        )
    here = [options for options in configuration.workloads if options.where in ("any", machine.kind)]
    if not here:
        raise PlanError(
            "workloads: all of them are for machines with an NVIDIA GPU (where: cuda); set where: any to run one here"
        )
    payloads = [
        Payload(configuration=configuration, options=options, root=str(root), machine=machine) for options in here
    ]
    places = [f"workload {options.name} ({options.source})" for options in here]
    return tuple(call_apart(f"{__name__}:plan_payload", payloads, PlannedRun, places=places))


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What one workload is planned from."""

    configuration: Configuration
    options: WorkloadOptions
    root: str
    machine: Machine


def plan_payload(plain: dict[str, Any]) -> PlannedRun:
    """The plan of the workload that a `Payload` names."""
    payload = msgspec.convert(plain, Payload)
    return _plan_run(payload.configuration, payload.options, Path(payload.root), payload.machine)


def _plan_run(configuration: Configuration, options: WorkloadOptions, root: Path, machine: Machine) -> PlannedRun:
    workload = load_workload(options.source, root)
    program = program_name(workload, options.source, root)
    file = find_module_file(program)
    if file is None:
        raise PlanError(f"workload {options.name}: program {program!r} is no module that is found; correct it")
    checks = sibling_file(program, "checks")
    workload = check_workload(workload, options.name, program=file, checks=checks)
    goals = [target.name for target in tell_targets(workload, tuple(workload.cases))]
    document = read_promises(file.with_name(PROMISES), workload, goals, checks)
    size = options.size or configuration.size
    if size == "auto":
        size = "full" if machine.kind == "cuda" else "tiny"
    layout, closure = Layout(root), find_closure(options.source, program, root)
    context = RunContext(
        configuration=configuration,
        options=options,
        workload=workload,
        closure=closure,
        size=size,
        run=f"{size}-{machine.device}",
        device=machine.device,
        tier=options.tier or configuration.tier,
        budget=choose_budget(configuration, machine.kind),
        lock=digest_of(root / LOCK),
    )
    cases = _choose_cases(context)
    stack = stack_variants(_choose_phases(context), cases, machine, options.ablations or configuration.ablations)
    run_plan = make_run_plan(
        workload, stack, context.options, context.run, size, machine.device, context.tier, cases, document
    )
    return PlannedRun(
        run_plan=msgspec.structs.replace(run_plan, program=program, code=_digest_readers()),
        prepare=keep_prepare(_plan_prepare(context, cases), closure, layout),
        variants=tuple(
            keep_variant(plan_variant(context, stack, variant), closure, layout)
            for variant in stack.variants
            if variant.places
        ),
    )


def _choose_cases(context: RunContext) -> tuple[str, ...]:
    workload, options, size = context.workload, context.options, context.size
    for case in options.cases or ():
        if case not in workload.cases:
            raise PlanError(
                f"workloads.{options.name}.cases: {case!r} is unknown; choose among {', '.join(workload.cases)}"
            )
    wanted = options.cases or tuple(workload.cases)
    cases = tuple(
        case for case in workload.cases if case in wanted and shape_at(workload.cases[case], size) is not None
    )
    if not cases:
        raise PlanError(
            f"workloads.{options.name}: none of its cases has the size {size!r}; give one a Shape or change size"
        )
    return cases


def _choose_phases(context: RunContext) -> Workload:
    """The workload with only the phases that the configuration names, if it names any."""
    wanted = context.options.phases
    if wanted is None:
        return context.workload
    known = [phase.name for phase in context.workload.phases]
    for name in wanted:
        if name not in known:
            raise PlanError(
                f"workloads.{context.options.name}.phases: {name!r} is unknown; choose among {', '.join(known)}"
            )
    return replace(context.workload, phases=tuple(phase for phase in context.workload.phases if phase.name in wanted))


def _plan_prepare(context: RunContext, cases: tuple[str, ...]) -> PreparePlan:
    return PreparePlan(
        workload=context.options.name,
        source=context.options.source,
        run=context.run,
        size=context.size,
        device=context.device,
        seed=context.configuration.seed,
        lock=context.lock,
        shapes={case: dict(shape_at(context.workload.cases[case], context.size) or {}) for case in cases},
        sources=context.closure.digest,
    )


@functools.cache
def _digest_readers() -> str:
    package = Path(__file__).parents[1]
    files = [path for reader in READERS for path in package.glob(reader) if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
