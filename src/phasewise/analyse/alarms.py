"""What the author of a workload has to know first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phasewise.analyse.compare import Key
from phasewise.analyse.judging import digest_judging
from phasewise.records.analyse import CaseResult, TargetResult, VariantAnalysis
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.run import Run

LOST = frozenset({Status.SLOWER, Status.INVALID, Status.FAILED})


def raise_alarms(
    run: Run,
    verdicts: Mapping[Key, Verdict],
    doubts: Mapping[Key, str],
    cases: Sequence[CaseResult],
    targets: Sequence[TargetResult],
) -> tuple[str, ...]:
    """One sentence each, the gravest first. `doubts`: steps that seem to be above the peak where that proves nothing."""
    sentences = [
        *_gates(run, verdicts),
        *_kept(run, verdicts),
        *(
            f"{variant} in {case}: {doubt}; is its work counted rightly, and done?"
            for (case, variant), doubt in doubts.items()
        ),
        *_machines(run),
        *_judged_before(run),
        *_holes(run),
        *_controls(cases),
        *_because(run, verdicts),
        *_unsettled(run, targets),
    ]
    return tuple(dict.fromkeys(sentences))


def _gates(run: Run, verdicts: Mapping[Key, Verdict]) -> Iterable[str]:
    for (case, variant), verdict in verdicts.items():
        if verdict.reason is Reason.ALARM_NOT_REFUSED:
            yield f"{variant} in {case}: the gate had to refuse it and did not; tighten the tolerance or drop must='INVALID'."
        # a baseline that only lacks what a phase gives it is as planned, and no alarm
        is_cured = any(other.status is Status.ENABLED for (where, _), other in verdicts.items() if where == case)
        if (
            run.rows[variant].kind is Kind.BASELINE
            and verdict.status in (Status.INVALID, Status.FAILED)
            and not is_cured
        ):
            yield f"{variant} in {case}: the baseline is {verdict.status} ({verdict.reason}): {verdict.detail}"


def _kept(run: Run, verdicts: Mapping[Key, Verdict]) -> Iterable[str]:
    for (case, variant), verdict in verdicts.items():
        row = run.rows[variant]
        if row.kind is not Kind.PHASE or not row.kept:
            continue
        planned = run.phases.get(variant)
        stays = planned.stays.rstrip(".") if planned is not None else ""
        if verdict.status in LOST:
            why = f": {verdict.detail}" if verdict.detail else ""
            # no reason excuses a phase that is wrong or dies
            advice = f"its author says: {stays}" if stays and verdict.status is Status.SLOWER else "set keep=False"
            advice = "mend it" if verdict.reason is Reason.CRASH else advice
            yield f"{row.phase} is kept and {verdict.status} in {case} ({verdict.reason}){why}; {advice}."
        elif verdict.status is Status.SAME:
            advice = f"its author says: {stays}" if stays else "keep it only if others need it"
            yield f"{row.phase} is kept and changes nothing in {case} (within 1 %); {advice}."


def _machines(run: Run) -> Iterable[str]:
    here = run.machine.identity
    timed = {record.machine for record in (*run.find_all(Measurement).values(), *run.find_all(Profile).values())}
    # a gate takes no times, so one from a machine with another number of cores counts as well
    gates = {record.machine for record in run.find_all(Validation).values() if _gpu(record.machine) != _gpu(here)}
    names = [here, *sorted((timed | gates) - {here})]
    if len(names) > 1:
        yield (
            f"records come from {len(names)} machines ({'; '.join(f'[{name}]' for name in names)}); "
            f"only those of [{run.machine.identity}] are compared."
        )


def _gpu(identity: str) -> str:
    """An identity less its last part, the cores."""
    return identity.rpartition("; ")[0]


def find_machines(run: Run) -> tuple[str, ...]:
    """Identities that the records name, the run's own first."""
    kinds = (Measurement, Profile, Validation)
    found = {record.machine for kind in kinds for record in run.find_all(kind).values()}
    return tuple(dict.fromkeys([run.machine.identity, *sorted(found)]))


def _judged_before(run: Run) -> Iterable[str]:
    """Findings by other peaks or code than the verdicts beside them."""
    today = digest_judging(run)
    others = [name for name, found in run.find_all(VariantAnalysis).items() if found.judged_by not in ("", today)]
    if others:
        yield (
            f"this page is of two kinds: the findings of {', '.join(others)} were judged by other peaks or other code than "
            "its verdicts; run the graph again, which judges all of them."
        )


def _holes(run: Run) -> Iterable[str]:
    for row in run.plan.variants:
        if row.skip:
            continue
        missing = [] if row.kind is Kind.CONTROL or run[row.variant].validation is not None else ["validation"]
        timed = run[row.variant].measure is not None or any(run[row.variant].measured(case) for case in row.cases)
        if not row.untimed and not timed:
            missing.append("measurement")
        if missing:
            yield f"{row.variant}: no {' and no '.join(missing)} record; run the graph again, or phasewise retry."
        for case in row.cases:
            measured = run[row.variant].measured(case)
            for arm in measured.arms if measured is not None else ():
                if arm.failure is not None and arm.arm != "variant" and arm.failure.reason is Reason.TIMEOUT:
                    yield f"{row.variant} in {case}: {arm.variant} beside it died ({arm.failure.reason}): {arm.failure.message}"


def _controls(cases: Sequence[CaseResult]) -> Iterable[str]:
    for case in cases:
        for control in (case.control, case.baseline_control):
            if control is not None and control.covers_zero is False:
                assert control.ratio is not None
                meaning = (
                    "of one set of processes, so it tells no noise limit"
                    if control.floor is None
                    else f"claims of ratios as noisy are not made under {100 * control.floor:.1f} %"
                )
                yield (
                    f"A/A of {control.variant} in {case.case} is {control.ratio.estimate:.4f} and its interval leaves out 1: {meaning}."
                )
        if case.control is None:
            yield f"{case.case} has no A/A control: only effects over 10 % are claimed."


def _because(run: Run, verdicts: Mapping[Key, Verdict]) -> Iterable[str]:
    """Phases whose reason the parent's profile does not show."""
    for phase in run.plan.phases:
        if phase.because_is_idea or not phase.because:
            continue
        for case in phase.cases:
            if verdicts[(case, phase.variant)].status is Status.SKIPPED:
                continue
            parent = run[phase.variant].parent(case)
            analysis = run[parent].analysed(case) if parent is not None else None
            found = next((f for f in analysis.findings if f.finding == phase.because), None) if analysis else None
            if found is not None and found.outcome == "absent":
                yield f"{phase.phase} says it answers {phase.because}, which the profile of {parent} in {case} does not show."


def _unsettled(run: Run, targets: Sequence[TargetResult]) -> Iterable[str]:
    for planned, target in zip(run.plan.targets, targets, strict=True):
        if target.level is Level.NONE and planned.size in ("", run.plan.size):
            yield f"target '{target.name}' has no value: {target.reason}."
