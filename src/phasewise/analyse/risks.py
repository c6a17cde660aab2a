"""What became of the risks: each is a check that ran, a target that was judged, or says that nobody can check it here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phasewise.records.analyse import BY_HAND, CAME_TRUE, DID_NOT, NOT_CHECKED, RiskResult, TargetResult
from phasewise.records.plan import PlannedRisk
from phasewise.records.validate import CaseValidation, CheckResult, Outcome
from phasewise.records.verdict import Level

REACHED = (Level.MINIMUM, Level.TARGET, Level.STRETCH)


def settle_risks(
    risks: Iterable[PlannedRisk], validations: Sequence[CaseValidation | None], targets: Sequence[TargetResult]
) -> tuple[RiskResult, ...]:
    """The outcome of each risk from its target, or the checks of these validations: one failure is enough for it to have come true."""
    return tuple(
        _settle(risk, validations) if risk.target is None else _settle_by_target(risk, targets) for risk in risks
    )


def _settle_by_target(risk: PlannedRisk, targets: Sequence[TargetResult]) -> RiskResult:
    found = next((one for one in targets if one.name == risk.target), None)
    if found is None:
        return RiskResult(title=risk.title, outcome=NOT_CHECKED, evidence=f"{risk.target} is not in this run")
    outcome = CAME_TRUE if found.level is Level.MISSED else DID_NOT if found.level in REACHED else NOT_CHECKED
    told = f" ({found.reason})" if found.reason else ""
    return RiskResult(
        title=risk.title, outcome=outcome, evidence=f"{risk.target} on {found.case}: {found.level.value}{told}"
    )


def _settle(risk: PlannedRisk, validations: Sequence[CaseValidation | None]) -> RiskResult:
    if risk.check is None:
        return RiskResult(title=risk.title, outcome=BY_HAND, evidence=risk.by_hand or "no check is named")
    judged = [
        (validation, check)
        for validation in validations
        if validation is not None
        for check in validation.checks
        if check.check == risk.check
    ]
    found = [(validation.case, check) for validation, check in judged]
    failed = [(case, check) for case, check in found if check.outcome is Outcome.FAIL]
    if failed:
        return RiskResult(title=risk.title, outcome=CAME_TRUE, evidence=_tell(failed))
    # where the variant fell back, something else passed the check
    fell_back = [validation.message for validation, _ in judged if validation.outcome is Outcome.FALLBACK]
    passed = [
        (validation.case, check)
        for validation, check in judged
        if check.outcome is Outcome.PASS and validation.outcome is not Outcome.FALLBACK
    ]
    if fell_back and not passed:
        return RiskResult(title=risk.title, outcome=NOT_CHECKED, evidence=f"{risk.check}: {fell_back[0]}")
    if passed:
        return RiskResult(title=risk.title, outcome=DID_NOT, evidence=_tell(passed))
    return RiskResult(title=risk.title, outcome=NOT_CHECKED, evidence=_why_not(risk.check, found, validations))


def _tell(found: list[tuple[str, CheckResult]]) -> str:
    return "; ".join(f"{check.check} on {case}: {check.message or check.outcome}" for case, check in found)


def _why_not(name: str, found: list[tuple[str, CheckResult]], validations: Sequence[CaseValidation | None]) -> str:
    if found:
        return _tell(found)
    skipped = [validation.message for validation in validations if validation is not None and validation.message]
    return f"{name} did not run" + (f": {skipped[0]}" if skipped else "")
