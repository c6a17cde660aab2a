"""What a phase should gain, from the profile and the gate of its parent and the machine's peaks: made before it is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phasewise.analyse.diagnose import find_findings
from phasewise.analyse.experience import AUTHOR, LEVEL, Outcome, list_outcomes, widen_claim
from phasewise.records.analyse import Finding
from phasewise.records.base import Interval, Seconds
from phasewise.records.ledger import Ledger
from phasewise.records.plan import PlannedCase, PlannedPhase, VariantPlan
from phasewise.records.predict import Predicted, Prediction
from phasewise.records.profile import CaseProfile
from phasewise.run import Run
from phasewise.store import digest


def predict_variant(run: Run, variant: str, ledgers: Iterable[Ledger]) -> Predicted:
    """Predictions for a phase in every case: by the finding that it answers, and by its author.

    Reads of the run its plan, its declared work, and what was profiled and validated of the parents. `ledgers` are those
    of other workloads: what a rule is worth is not learnt from the phases that it is tried on.
    """
    plan, phase = run.need(VariantPlan, variant), run.phases[variant]
    outcomes = list_outcomes(ledger for ledger in ledgers if ledger.workload != run.workload)
    return Predicted(
        workload=run.workload,
        run=run.name,
        variant=variant,
        plan=digest(plan),
        predictions=tuple(
            prediction for case in plan.cases for prediction in _predict_case(run, phase, case, outcomes)
        ),
    )


def _predict_case(
    run: Run, phase: PlannedPhase, case: PlannedCase, outcomes: Sequence[Outcome]
) -> Iterable[Prediction]:
    if case.parent is None:
        return
    if not phase.because_is_idea and phase.because:
        yield _predict_by_rule(run, phase, case.case, case.parent, outcomes)
    if phase.expect is not None:
        low, high = phase.expect
        yield Prediction(
            phase=phase.phase, case=case.case, variant=phase.variant, parent=case.parent, low=low, high=high,
            basis=AUTHOR, finding=AUTHOR,
        )  # fmt: skip


def _predict_by_rule(run: Run, phase: PlannedPhase, case: str, parent: str, outcomes: Sequence[Outcome]) -> Prediction:
    held = run[parent]
    made = [record for record in (held.profile, held.validation, run.machine.peaks) if record is not None]
    # of the parent, and before any of its times is known
    known = (run.plan, run.machine, run.prepared, held.plan, held.profile, held.validation)
    findings = find_findings(
        Run(run.workload, run.name, [record for record in known if record is not None]),
        parent,
        case,
        _untraced_step(held.profiled(case)),
    )
    found = next((one for one in findings if one.finding == phase.because), None)
    interval, reason = _read(phase.because, found, outcomes)
    return Prediction(
        phase=phase.phase, case=case, variant=phase.variant, parent=parent,
        low=interval.low if interval else None, high=interval.high if interval else None,
        level=LEVEL if interval else None, basis=found.basis if found else "critical-path", finding=phase.because,
        claim=found.gain if found else None, reason=reason, made_from=tuple(digest(record) for record in made),
    )  # fmt: skip


def _untraced_step(profile: CaseProfile | None) -> Seconds | None:
    """Seconds of the profiled step without the profiler."""
    if profile is None or profile.breakdown is None:
        return None
    return profile.breakdown.wall_s / (profile.overhead or 1.0)


def _read(rule: str, found: Finding | None, outcomes: Sequence[Outcome]) -> tuple[Interval | None, str]:
    """The interval, or why there is none."""
    if found is None or found.outcome != "found" or found.gain is None:
        why = found.reason if found is not None and found.reason else "the parent's profile does not show it"
        return None, f"{rule}: {why}"
    return widen_claim(rule, found.gain, outcomes)
