"""Promises of the user's document beside what was measured: kept if the whole interval reaches the low end, and the gain is a claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from phasewise.analyse.targets import Judged, settle_target
from phasewise.records.analyse import CAME_TRUE, CaseResult, PromiseResult, RiskResult
from phasewise.records.plan import PlannedPhase, PlannedTarget
from phasewise.records.promise import GATE, Kept, Promise
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level
from phasewise.run import Run

OUTCOMES: dict[Level, Kept] = {
    Level.STRETCH: Kept.BEATEN, Level.TARGET: Kept.BEATEN, Level.MINIMUM: Kept.KEPT, Level.UNDECIDED: Kept.UNDECIDED,
    Level.MISSED: Kept.BROKEN, Level.DISOWNED: Kept.DISOWNED, Level.NONE: Kept.UNMEASURED,
}  # fmt: skip


def settle_promises(
    judged: Judged, cases: Sequence[CaseResult], risks: Sequence[RiskResult]
) -> tuple[PromiseResult, ...]:
    """Every promise of the document with its outcome, then those that stand at phases alone."""
    return tuple(_settle(judged, cases, risks, promise) for promise in _list_promises(judged.run))


def _list_promises(run: Run) -> Iterator[Promise]:
    yield from run.plan.promises
    told = {promise.phase for promise in run.plan.promises}
    for phase in run.plan.phases:
        if phase.documented is not None and phase.phase not in told:
            yield Promise(quote=phase.phase, promised=phase.documented, phase=phase.phase)


def _settle(
    judged: Judged, cases: Sequence[CaseResult], risks: Sequence[RiskResult], promise: Promise
) -> PromiseResult:
    if promise.why:
        return PromiseResult(promise=promise, outcome=Kept.NO_PROMISE, evidence=promise.why)
    phase = next((one for one in judged.run.plan.phases if one.phase == promise.phase), None)
    if promise.target:
        return _by_target(judged, promise)
    if promise.check:
        return _by_check(judged, promise, phase)
    if promise.risk:
        return _by_risk(promise, [*risks, *(risk for case in cases for row in case.rows for risk in row.risks)])
    if phase is None:
        return PromiseResult(promise=promise, outcome=Kept.UNMEASURED, evidence=f"{promise.phase} is not in this run")
    return _by_phase(judged, promise, phase) if promise.promised else _by_being_there(judged.run, promise, phase)


def _by_target(judged: Judged, promise: Promise) -> PromiseResult:
    planned = next((one for one in judged.run.plan.targets if one.name == promise.target), None)
    if planned is None:
        return PromiseResult(promise=promise, outcome=Kept.UNMEASURED, evidence=f"{promise.target} is not in this run")
    result = settle_target(judged, _bound(planned, promise))
    outcome = OUTCOMES[result.level]
    # bounds that are not the document's can be reached, and not be beaten
    outcome = Kept.KEPT if outcome is Kept.BEATEN and promise.promised is None else outcome
    return PromiseResult(promise=promise, outcome=outcome, case=planned.case, measured=result)


def _bound(planned: PlannedTarget, promise: Promise) -> PlannedTarget:
    """The target, held to what the document says instead."""
    if promise.promised is None:
        return planned
    least, most = promise.promised if planned.better == "higher" else promise.promised[::-1]
    return replace(planned, minimum=least, target=most, stretch=None)


def _by_phase(judged: Judged, promise: Promise, phase: PlannedPhase) -> PromiseResult:
    """Its gain over its parent, in the first case where it was compared."""
    assert promise.promised is not None
    least, most = promise.promised
    results = [
        settle_target(
            judged,
            PlannedTarget(
                name=promise.quote, metric="speedup", case=case, against="parent", phase=phase.phase,
                minimum=least, target=most, unit="x",
            ),
        )
        for case in phase.cases
    ]  # fmt: skip
    result = next((one for one in results if one.level is not Level.NONE), results[0])
    return PromiseResult(
        promise=promise, outcome=OUTCOMES[result.level], case=result.case, variant=phase.variant, measured=result
    )


def _by_being_there(run: Run, promise: Promise, phase: PlannedPhase) -> PromiseResult:
    """It was built, and its results were right or refused as planned."""
    gates = [(case, gate) for case in phase.cases if (gate := run[phase.variant].gate(case)) is not None]
    wanted = Outcome.FAIL if phase.must else Outcome.PASS
    right = [case for case, gate in gates if gate.outcome is wanted]
    wrong = [case for case, gate in gates if gate.outcome is Outcome.FAIL and not phase.must]
    outcome = Kept.BROKEN if wrong else Kept.KEPT if right else Kept.UNMEASURED
    evidence = {
        Kept.BROKEN: "its results are wrong",
        Kept.KEPT: "built, and right",
        Kept.UNMEASURED: "no gate is on record",
    }[outcome]
    return PromiseResult(
        promise=promise,
        outcome=outcome,
        case=next(iter([*wrong, *right]), ""),
        variant=phase.variant,
        evidence=evidence,
    )


def _by_check(judged: Judged, promise: Promise, phase: PlannedPhase | None) -> PromiseResult:
    """By what the check found in the named phase, or else in all kept variants, each of which has to pass; the gate counts at the end of each stack."""
    run = judged.run
    if phase is not None:
        looked = [(phase.variant, case) for case in run.plan.cases]
    elif promise.check == GATE:
        looked = [(variant, case) for case, variant in judged.stack.items() if variant is not None]
    else:
        # the end of the stack first
        kept = [one.variant for one in reversed(run.plan.variants) if one.kept]
        looked = [(variant, case) for variant in kept for case in run.plan.cases]
    found = [one for variant, case in looked for one in _outcomes(run, variant, case, promise.check)]
    failed = [one for one in found if one[1] is Outcome.FAIL]
    passed = [one for one in found if one[1] is Outcome.PASS]
    told = PromiseResult(
        promise=promise,
        outcome=Kept.BROKEN if failed else Kept.KEPT if passed else Kept.UNMEASURED,
        variant=phase.variant if phase is not None else "",
        evidence=f"{promise.check} did not run",
    )
    found = failed or passed
    return replace(told, case=found[0][0], evidence=found[0][2]) if found else told


def _outcomes(run: Run, variant: str, case: str, check: str) -> list[tuple[str, Outcome, str]]:
    gate = run[variant].gate(case)
    if gate is None:
        return []
    if check == GATE:
        return [(case, gate.outcome, gate.message or f"{variant} is within its allowance")]
    return [
        (case, one.outcome, one.message or f"{one.check}: {one.outcome}") for one in gate.checks if one.check == check
    ]


def _by_risk(promise: Promise, risks: Iterable[RiskResult]) -> PromiseResult:
    """A probability promises nothing: what became of the risk stands beside it, the gravest outcome."""
    found = [one for one in risks if one.title == promise.risk]
    told = min((one.outcome for one in found), key=lambda outcome: outcome != CAME_TRUE, default="not checked")
    return PromiseResult(promise=promise, outcome=Kept.NO_PROMISE, evidence=f"risk: {promise.risk}: {told}")
