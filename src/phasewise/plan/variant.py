"""Plan one variant: everything that its records depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from phasewise.model.configuration import Configuration, WorkloadOptions
from phasewise.model.fields import Text, VariableName
from phasewise.model.freshness import Closure
from phasewise.model.parse import parse
from phasewise.model.stack import Stack, Variant, default_switches
from phasewise.model.workload import Case, Check, Shape, Tolerance, Workload
from phasewise.records.base import Scalar
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, PlannedCheck, VariantPlan

# raised by hand when a stage writes something else for the same plan: everything is then measured again
PROTOCOL = 3


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What the plans of one run share."""

    configuration: Configuration
    options: WorkloadOptions
    workload: Workload
    closure: Closure
    size: str
    run: str
    device: str
    tier: str
    budget: Budget
    lock: str

    @cached_property
    def defaults(self) -> dict[str, Scalar]:
        """The baseline."""
        return default_switches(self.workload)


def plan_variant(context: RunContext, stack: Stack, variant: Variant) -> VariantPlan:
    """The plan of one variant of `stack`."""
    workload = context.workload
    first = next(iter(variant.places.values()))
    ancestors = dict.fromkeys(name for place in variant.places.values() for name in place.ancestors)
    checks = _plan_checks(workload, stack, variant)
    tolerance = (variant.phase.tolerance if variant.phase else None) or workload.tiers[context.tier]
    ranks = first.switches.get("ranks", 1)
    environment = workload.environment(workload.switches(**first.switches)) if workload.environment else {}
    environment = parse(environment, Mapping[VariableName, Text], f"workload {context.options.name}: environment(...)")
    return VariantPlan(
        protocol=PROTOCOL,
        workload=context.options.name,
        source=context.options.source,
        run=context.run,
        size=context.size,
        device=context.device,
        variant=variant.name,
        kind=variant.kind,
        phase=variant.phase.name if variant.phase else None,
        parent=first.parent,
        ancestors=tuple(ancestors),
        kept=variant.kept,
        must=variant.phase.must if variant.phase else None,
        switches=_changed(context, first.switches),
        peer=variant.peer,
        environment=environment,
        ranks=int(ranks),
        skip=variant.skip,
        untimed=variant.untimed,
        cases=tuple(_plan_case(context, case, variant) for case in variant.places),
        tier=context.tier,
        allowance=_allow(tolerance),
        budget=context.budget,
        checks=checks,
        profilers=_profilers(context, stack, variant),
        exporters=_exporters(context, stack, variant),
        exported=_exported(context, stack, variant),
        nsight=_watched(context, stack, variant),
        seed=context.configuration.seed,
        lock=context.lock,
        sources=context.closure.digest,
    )


def _plan_case(context: RunContext, name: str, variant: Variant) -> PlannedCase:
    case, place, size = context.workload.cases[name], variant.places[name], context.size
    return PlannedCase(
        case=name,
        shape=dict(shape_at(case, size) or {}),
        switches=_changed(context, place.switches),
        parent=place.parent,
        ancestors=place.ancestors,
        inputs=case.inputs,
        steps=case.steps,
        cache=case.cache,
        memory_limit_bytes=case.memory_limit_bytes.get(size),
        baseline_at=tuple(dict(shape) for shape in case.baseline_at.get(size, ()) if variant.kind is Kind.BASELINE),
        scaling=case.scaling,
        sample_items=case.sample_items if size == "full" else None,
    )


def _changed(context: RunContext, switches: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The switches that differ from the baseline: a switch that is added later leaves older plans as they are."""
    return {name: value for name, value in switches.items() if value != context.defaults[name]}


def _plan_checks(workload: Workload, stack: Stack, variant: Variant) -> tuple[PlannedCheck, ...]:
    """Checks of the workload by `when`, and those that the phase's own risks name, in the cases that they are declared for."""
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    risks = (
        *(variant.phase.risks if variant.phase else ()),
        *(workload.risks if variant.name in stack.tops.values() else ()),
    )
    named = [Check(risk.check, when="every", cases=_cases_of(workload, risk.check)) for risk in risks if risk.check]
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


def _cases_of(workload: Workload, name: str) -> tuple[str, ...]:
    """The cases that any declaration of a check names; () for all of them."""
    declared = [check.cases for check in workload.checks if check.name == name]
    return () if () in declared else tuple(dict.fromkeys(case for cases in declared for case in cases))


def _is_due(check: Check, case: str, stack: Stack, variant: Variant) -> bool:
    if check.when == "final":
        return stack.tops[case] == variant.name
    return check.when == "every" or variant.kept


def _profilers(context: RunContext, stack: Stack, variant: Variant) -> tuple[str, ...]:
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    names = context.configuration.profilers
    if context.configuration.capture == "ends" and not _is_end(stack, variant):
        names = tuple(name for name in names if name not in ("nsys", "ncu", "sanitizer"))
    return names


def _exporters(context: RunContext, stack: Stack, variant: Variant) -> tuple[str, ...]:
    if variant.kind not in (Kind.BASELINE, Kind.PHASE):
        return ()
    exported = _exported(context, stack, variant)
    return context.configuration.exporters if exported is None or exported else ()


def _exported(context: RunContext, stack: Stack, variant: Variant) -> tuple[str, ...] | None:
    """The cases that are exported; None for all."""
    on_top = _cases_on_top(context, stack, variant)
    names = tuple(variant.places) if on_top is None else on_top
    left = tuple(name for name in names if context.workload.cases[name].export)
    return None if on_top is None and left == names else left


def _cases_on_top(context: RunContext, stack: Stack, variant: Variant) -> tuple[str, ...] | None:
    """The cases in which this is the last kept variant; None where all are captured."""
    if context.configuration.capture == "all":
        return None
    return tuple(case for case in variant.places if stack.tops[case] == variant.name)


def _watched(context: RunContext, stack: Stack, variant: Variant) -> tuple[str, ...] | None:
    """The cases that the Nsight tools capture: where it is the last kept, and the baseline's first."""
    on_top = _cases_on_top(context, stack, variant)
    if on_top is None or variant.kind is not Kind.BASELINE:
        return on_top
    return tuple(dict.fromkeys((next(iter(variant.places)), *on_top)))


def _is_end(stack: Stack, variant: Variant) -> bool:
    return variant.kind is Kind.BASELINE or variant.name in stack.tops.values()


def shape_at(case: Case, size: str) -> Shape | None:
    """The sizes of `case` at `size`; None where it is not run at that size."""
    shape: Shape | None = getattr(case, size)
    return shape


def _allow(tolerance: Tolerance) -> Allowance:
    return Allowance(
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        times_baseline=tolerance.times_baseline,
        unit=tolerance.unit,
        why=tolerance.why,
    )
