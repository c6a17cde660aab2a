"""The plan of a run: what the authors said about phases, targets and risks before anything was measured."""

from __future__ import annotations

from phasewise.model.check import METRICS
from phasewise.model.configuration import WorkloadOptions
from phasewise.model.stack import Stack, Variant
from phasewise.model.workload import Case, Idea, Phase, Risk, Target, Workload
from phasewise.plan.variant import shape_at
from phasewise.records.plan import PlannedPhase, PlannedRisk, PlannedTarget, PlannedVariant, RunPlan
from phasewise.records.promise import Document

# metrics whose bound means nothing at another size; so do seconds that a check returns
SIZED = ("time_s", "items_per_s", "peak_memory_bytes", "energy_j_per_item", "utilisation", "launches",
         "synchronisations", "device_to_host")  # fmt: skip


def make_run_plan(
    workload: Workload,
    stack: Stack,
    options: WorkloadOptions,
    run: str,
    size: str,
    device: str,
    tier: str,
    cases: tuple[str, ...],
    document: Document | None = None,
) -> RunPlan:
    """The run-level plan; only analyse and report read it, so that a better sentence re-measures nothing."""
    return RunPlan(
        workload=options.name,
        source=options.source,
        run=run,
        size=size,
        device=device,
        summary=workload.summary,
        tier=tier,
        cases=cases,
        parts=tuple(workload.parts),
        phases=tuple(
            _plan_phase(variant, variant.phase) for variant in stack.variants if _is_phase(variant) and variant.phase
        ),
        variants=tuple(_plan_variant(workload, stack, variant) for variant in stack.variants if variant.places),
        stack=dict(stack.tops),
        targets=tell_targets(workload, cases),
        risks=tuple(_tell_risk(risk) for risk in workload.risks),
        considered=tuple(workload.considered.items()),
        unmeasured=tuple(workload.unmeasured.items()),
        document=document.document if document is not None else "",
        promises=document.promises if document is not None else (),
    )


def _is_phase(variant: Variant) -> bool:
    return variant.kind.value == "phase" and bool(variant.places)


def _plan_phase(variant: Variant, phase: Phase) -> PlannedPhase:
    return PlannedPhase(
        phase=phase.name,
        variant=variant.name,
        part=phase.part,
        because=phase.because.text if isinstance(phase.because, Idea) else str(phase.because),
        because_is_idea=isinstance(phase.because, Idea),
        expect=phase.expect,
        documented=phase.documented,
        method=phase.method,
        kept=variant.kept,
        must=phase.must,
        cases=tuple(variant.places),
        risks=tuple(_tell_risk(risk) for risk in phase.risks),
        stays=phase.stays,
    )


def _plan_variant(workload: Workload, stack: Stack, variant: Variant) -> PlannedVariant:
    case, first = next(iter(variant.places.items()))
    below = {other.name: other for other in stack.variants}
    parent = below[first.parent].places if first.parent else {}
    sets = {
        name: value for name, value in first.switches.items() if parent and parent[case].switches.get(name) != value
    }
    follows = next(iter(parent.values())).switches | sets if parent else {}
    return PlannedVariant(
        variant=variant.name,
        kind=variant.kind,
        phase=variant.phase.name if variant.phase else None,
        parent=first.parent,
        ancestors=first.ancestors,
        kept=variant.kept,
        switches={name: value for name, value in first.switches.items() if follows.get(name) != value},
        sets=sets,
        skip=variant.skip,
        untimed=variant.untimed,
        cases=tuple(variant.places),
        different=next((peer.different for peer in workload.peers if peer.name == variant.peer), ""),
    )


def tell_targets(workload: Workload, cases: tuple[str, ...]) -> tuple[PlannedTarget, ...]:
    """Targets of the whole stack, of parts and of phases, in these cases."""
    found = [_tell_target(target, workload, cases) for target in workload.targets]
    found += [
        _tell_target(target, workload, cases, part=part)
        for part, targets in workload.parts.items()
        for target in targets
    ]
    found += [
        _tell_target(target, workload, cases, phase=phase.name) for phase in workload.phases for target in phase.targets
    ]
    return tuple(target for target in found if target.case in cases)


def _tell_target(
    target: Target, workload: Workload, cases: tuple[str, ...], *, part: str | None = None, phase: str | None = None
) -> PlannedTarget:
    better, unit = METRICS.get(target.metric, (target.better, target.unit))
    case = target.case or cases[0]
    is_time = target.metric not in METRICS and target.unit == "s"
    is_of_size = target.against == "absolute" and (target.metric in SIZED or is_time)
    owner = phase or part
    name = target.name or f"{f'{owner}: ' if owner else ''}{target.metric.replace('_', ' ')} of {case}"
    return PlannedTarget(
        name=name,
        metric=target.metric,
        case=case,
        against=target.against,
        part=part,
        phase=phase,
        minimum=target.minimum,
        target=target.target,
        stretch=target.stretch,
        better=better,
        unit=target.unit or unit,
        size=_largest_size(workload.cases[case]) if is_of_size else "",
        disowned=target.disowned,
    )


def _largest_size(case: Case) -> str:
    """A workload that has no size but `tiny` means its bounds for that."""
    return next(size for size in ("full", "small", "tiny") if shape_at(case, size) is not None)


def _tell_risk(risk: Risk) -> PlannedRisk:
    probability = risk.probability if isinstance(risk.probability, str) else f"{risk.probability:g} %"
    return PlannedRisk(
        title=risk.title,
        probability=probability,
        impact=risk.impact,
        symptom=risk.symptom,
        mitigation=risk.mitigation,
        contingency=risk.contingency,
        check=risk.check,
        target=risk.target,
        by_hand=risk.by_hand,
    )
