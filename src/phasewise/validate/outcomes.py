"""The outcome of a case from its errors, guards and checks. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.records.validate import CaseValidation, CheckResult, Guard, Outcome, TensorError
from phasewise.records.verdict import Failure, Reason


def conclude(
    errors: Iterable[TensorError], guards: Iterable[Guard], checks: Iterable[CheckResult], fallbacks: tuple[str, ...]
) -> tuple[Outcome, str]:
    """The outcome of a case, and one sentence on the first thing that failed; a fallback never passes."""
    for error in errors:
        if error.outcome is Outcome.FAIL:
            return Outcome.FAIL, f"{error.kind} {error.name!r}, step {error.step}: {error.message}"
    for guard in guards:
        if guard.outcome is Outcome.FAIL:
            return Outcome.FAIL, f"guard {guard.guard}: {guard.message}"
    for check in checks:
        if check.outcome is Outcome.FAIL:
            return Outcome.FAIL, f"check {check.check}: {check.message or 'not passed'}"
    if fallbacks:
        return Outcome.FALLBACK, f"fell back to the reference: {'; '.join(fallbacks)}"
    return Outcome.PASS, ""


def skipped_case(case: str, reason: Reason, message: str) -> CaseValidation:
    """A case of which nothing was run."""
    failure = Failure(reason=reason, message=message)
    return CaseValidation(case=case, outcome=Outcome.SKIPPED, message=message, failure=failure)


def failed_case(case: str, failure: Failure) -> CaseValidation:
    """A case whose process could not do its work; a program that says it isn't supported is skipped, not failed."""
    if failure.reason in (Reason.UNSUPPORTED, Reason.NEEDS):
        return skipped_case(case, failure.reason, failure.message)
    return CaseValidation(case=case, outcome=Outcome.FAIL, message=failure.message, failure=failure)


def is_sound(validation: CaseValidation | None) -> bool:
    """True if its results may stand in for the reference."""
    return validation is not None and validation.outcome in (Outcome.PASS, Outcome.FALLBACK)
