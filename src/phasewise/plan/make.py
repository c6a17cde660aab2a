"""Make the plans of all workloads that the configuration names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from phasewise.model.check import check_workload
from phasewise.model.configuration import Configuration, WorkloadOptions, choose_budget
from phasewise.model.discover import load_module, load_workload, program_name, sibling_file
from phasewise.model.reach import digest_sources
from phasewise.model.stack import CONTROL, Stack, Variant, stack_variants
from phasewise.model.workload import Case, Check, Shape, Tolerance, Workload
from phasewise.plan.story import tell_story
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.records.plan import (
    Allowance,
    Budget,
    Kind,
    PlannedCase,
    PlannedCheck,
    PreparePlan,
    RunPlan,
    VariantPlan,
)

# raised by hand when a stage writes something else for the same plan: everything is then measured again
PROTOCOL = 1
LOCK = "requirements.lock"
# functions of a program module that every variant can reach
ENTRIES = ("make_inputs", "build", "reference", "work", "prepare")


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One workload on one machine, planned."""

    run_plan: RunPlan
    prepare: PreparePlan
    variants: tuple[VariantPlan, ...]


def plan_runs(configuration: Configuration, root: Path, machine: Machine) -> tuple[PlannedRun, ...]:
    """Plan every workload of `configuration` for `machine`; imports no torch.

    Raises:
        PlanError: the first mistake found, in one sentence.
    """
    if configuration.device == "cuda" and machine.kind != "cuda":
        raise PlanError("device: 'cuda' is asked for and no NVIDIA GPU can be seen; install the driver, or set device: cpu")
    return tuple(_plan_run(configuration, options, root, machine) for options in configuration.workloads)


@dataclass(frozen=True, kw_only=True)
class _Context:
    """What the plans of one run share."""

    configuration: Configuration
    options: WorkloadOptions
    workload: Workload
    program: str
    folders: dict[str, Path]
    size: str
    run: str
    device: str
    tier: str
    budget: Budget
    lock: str


def _plan_run(configuration: Configuration, options: WorkloadOptions, root: Path, machine: Machine) -> PlannedRun:
    workload = load_workload(options.source, root)
    program = program_name(workload, options.source, root)
    check_workload(workload, options.name, sibling_file(program, "checks"))
    size = options.size or configuration.size
    if size == "auto":
        size = "full" if machine.kind == "cuda" else "tiny"
    context = _Context(
        configuration=configuration, options=options, workload=workload, program=program,
        folders=_folders(options, program, root), size=size, run=f"{size}-{machine.device}", device=machine.device,
        tier=options.tier or configuration.tier, budget=choose_budget(configuration, machine.kind), lock=_digest_file(root / LOCK),
    )  # fmt: skip
    cases = _choose_cases(context)
    stack = stack_variants(_choose_phases(context), cases, machine, options.ablations or configuration.ablations)
    run_plan = tell_story(workload, stack, context.options, context.run, size, machine.device, context.tier, cases)
    return PlannedRun(
        run_plan=run_plan,
        prepare=_plan_prepare(context, cases),
        variants=tuple(_plan_variant(context, stack, variant) for variant in stack.variants if variant.places),
    )


def _choose_cases(context: _Context) -> tuple[str, ...]:
    workload, options, size = context.workload, context.options, context.size
    for case in options.cases or ():
        if case not in workload.cases:
            raise PlanError(
                f"workloads.{options.name}.cases: {case!r} is unknown; choose among {', '.join(workload.cases)}"
            )
    wanted = options.cases or tuple(workload.cases)
    cases = tuple(case for case in workload.cases if case in wanted and _shape(workload.cases[case], size) is not None)
    if not cases:
        raise PlanError(f"workloads.{options.name}: none of its cases has the size {size!r}; give one a Shape or change size")
    return cases


def _choose_phases(context: _Context) -> Workload:
    """The workload with only the phases that the configuration names, if it names any."""
    wanted = context.options.phases
    if wanted is None:
        return context.workload
    known = [phase.name for phase in context.workload.phases]
    for name in wanted:
        if name not in known:
            raise PlanError(f"workloads.{context.options.name}.phases: {name!r} is unknown; choose among {', '.join(known)}")
    from dataclasses import replace

    return replace(context.workload, phases=tuple(phase for phase in context.workload.phases if phase.name in wanted))


def _plan_prepare(context: _Context, cases: tuple[str, ...]) -> PreparePlan:
    entries = [(context.program, name) for name in ("prepare", "work", "make_inputs")]
    return PreparePlan(
        workload=context.options.name, source=context.options.source, run=context.run, size=context.size,
        device=context.device, seed=context.configuration.seed, lock=context.lock,
        shapes={case: dict(_shape(context.workload.cases[case], context.size) or {}) for case in cases},
        sources=digest_sources(entries, {}, context.folders),
    )  # fmt: skip


def _plan_variant(context: _Context, stack: Stack, variant: Variant) -> VariantPlan:
    workload = context.workload
    first = next(iter(variant.places.values()))
    ancestors = dict.fromkeys(name for place in variant.places.values() for name in place.ancestors)
    checks = _plan_checks(workload, stack, variant)
    tolerance = (variant.phase.tolerance if variant.phase else None) or workload.tiers[context.tier]
    ranks = first.switches.get("ranks", 1)
    environment = workload.environment(workload.switches(**first.switches)) if workload.environment else {}
    return VariantPlan(
        protocol=PROTOCOL, workload=context.options.name, source=context.options.source, run=context.run,
        size=context.size, device=context.device, variant=variant.name, kind=variant.kind,
        phase=variant.phase.name if variant.phase else None, parent=first.parent, ancestors=tuple(ancestors),
        kept=variant.kept, must=variant.phase.must if variant.phase else None, switches=first.switches,
        peer=variant.peer, environment=dict(environment), ranks=int(ranks), skip=variant.skip, untimed=variant.untimed,
        cases=tuple(
            _plan_case(workload.cases[case], case, context.size, variant) for case in variant.places
        ),
        tier=context.tier, allowance=_allow(tolerance), budget=context.budget, checks=checks,
        profilers=_profilers(context, stack, variant), exporters=_exporters(context, stack, variant),
        seed=context.configuration.seed, lock=context.lock, sources=_digest_variant(context, variant, checks),
    )  # fmt: skip


def _plan_case(case: Case, name: str, size: str, variant: Variant) -> PlannedCase:
    place = variant.places[name]
    return PlannedCase(
        case=name, shape=dict(_shape(case, size) or {}), switches=place.switches, parent=place.parent,
        ancestors=place.ancestors, inputs=case.inputs, steps=case.steps, cache=case.cache,
        memory_limit_bytes=case.memory_limit_bytes.get(size),
        baseline_at=tuple(dict(shape) for shape in case.baseline_at.get(size, ())),
        scaling=case.scaling, sample_items=case.sample_items if size == "full" else None,
    )  # fmt: skip


def _plan_checks(workload: Workload, stack: Stack, variant: Variant) -> tuple[PlannedCheck, ...]:
    """Checks of the workload by `when`, and those that the phase's own risks name."""
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    named = [Check(risk.check, when="every") for risk in (variant.phase.risks if variant.phase else ()) if risk.check]
    named += [Check(risk.check, when="every") for risk in workload.risks if risk.check and variant.name in stack.tops.values()]
    planned: dict[str, tuple[str, ...]] = {}
    for check in (*workload.checks, *named):
        cases = tuple(
            case
            for case in variant.places
            if (not check.cases or case in check.cases) and _is_due(check, case, stack, variant)
        )
        if cases:
            planned[check.name] = tuple(dict.fromkeys((*planned.get(check.name, ()), *cases)))
    return tuple(PlannedCheck(name=name, cases=cases) for name, cases in planned.items())


def _is_due(check: Check, case: str, stack: Stack, variant: Variant) -> bool:
    if check.when == "final":
        return stack.tops[case] == variant.name
    return check.when == "every" or variant.kept


def _profilers(context: _Context, stack: Stack, variant: Variant) -> tuple[str, ...]:
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    names = context.configuration.profilers
    if context.configuration.capture == "ends" and not _is_end(stack, variant):
        names = tuple(name for name in names if name not in ("nsys", "ncu", "sanitizer"))
    return names


def _exporters(context: _Context, stack: Stack, variant: Variant) -> tuple[str, ...]:
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    is_top = variant.name in stack.tops.values()
    return context.configuration.exporters if is_top or context.configuration.capture == "all" else ()


def _is_end(stack: Stack, variant: Variant) -> bool:
    return variant.kind is Kind.BASELINE or variant.name in stack.tops.values()


def _digest_variant(context: _Context, variant: Variant, checks: tuple[PlannedCheck, ...]) -> str:
    entries = [(context.program, name) for name in ENTRIES]
    package = context.program.rpartition(".")[0]
    for name, functions in (
        ("checks", [check.name.replace("-", "_") for check in checks]),
        ("peers", [variant.peer.replace("-", "_"), f"{variant.peer.replace('-', '_')}_reference"] if variant.peer else []),
    ):
        module = f"{package}.{name}" if package and sibling_file(context.program, name) else context.program
        entries += [(module, function) for function in functions]
        entries += [(context.program, function) for function in functions]
    switches = [place.switches for place in variant.places.values()]
    digests = {digest_sources(entries, values, context.folders) for values in switches}
    return "-".join(sorted(digests))


def _folders(options: WorkloadOptions, program: str, root: Path) -> dict[str, Path]:
    """Packages whose definitions count: the workload's own and the kit."""
    file = Path(load_module(options.source, root).__file__ or "")
    package = program.rpartition(".")[0]
    kit = Path(__file__).parent.parent / "kit"
    return {package: file.parent, "phasewise.kit": kit}


def _shape(case: Case, size: str) -> Shape | None:
    shape: Shape | None = getattr(case, size)
    return shape


def _allow(tolerance: Tolerance) -> Allowance:
    return Allowance(
        rtol=tolerance.rtol, atol=tolerance.atol, times_baseline=tolerance.times_baseline, unit=tolerance.unit,
        why=tolerance.why,
    )  # fmt: skip


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


__all__ = ["CONTROL", "PlannedRun", "plan_runs"]
