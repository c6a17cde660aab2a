"""Verdicts that need no statistics: what was skipped, refused, failed, or never measured."""

from __future__ import annotations

from phasewise.model.refusals import find_refusal
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Failure, Reason, Status, Verdict
from phasewise.run import Run

# reasons for which nothing was tried; the others are failures
NOT_TRIED = frozenset(
    {
        Reason.NEEDS,
        Reason.UNSUPPORTED,
        Reason.CASE_NOT_CHOSEN,
        Reason.NO_PARENT,
        Reason.NOT_MEASURED,
        Reason.OVER_BUDGET,
        Reason.RED_GATE,
        Reason.EXPECTED_INVALID,
    }
)
# what was seen while it was timed
REFUSED = frozenset(
    {Reason.WRONG_WHEN_TIMED, Reason.REMEMBERS, Reason.STOPWATCH, Reason.SKIPS_STEPS, Reason.UNTIMED_WORK}
)
# why a parent can't run, so that running at all is the gain; one that was killed from outside might have run
CANNOT_RUN = frozenset({Reason.OUT_OF_MEMORY, Reason.CRASH})
# statuses of variants whose times and other numbers are told: on a red gate a speed means nothing
TOLD = frozenset({Status.BASELINE, Status.FASTER, Status.SAME, Status.SLOWER, Status.INCONCLUSIVE, Status.ENABLED})


def judge_gate(run: Run, variant: str, case: str) -> Verdict | None:
    """The verdict of a variant whose speed is not to be told; None if it is."""
    row = run.rows[variant]
    phase = run.phases.get(variant)
    if case not in row.cases:
        return Verdict(status=Status.SKIPPED, reason=Reason.CASE_NOT_CHOSEN, detail=f"it does not apply to {case}")
    if row.skip:
        return Verdict(status=Status.SKIPPED, reason=Reason.NEEDS, detail=row.skip)
    verdict = _judge_validation(run[variant].gate(case), row.kind, phase.must if phase else None)
    if verdict is not None:
        return verdict
    if row.untimed:
        return Verdict(status=Status.SKIPPED, reason=Reason.NEEDS, detail=row.untimed)
    return _judge_measurement(run, variant, case) or _judge_headline(run, variant, case)


def judge_failure(failure: Failure) -> Verdict:
    """SKIPPED where nothing was tried, INVALID where it was refused, FAILED where it went wrong."""
    status = (
        Status.SKIPPED
        if failure.reason in NOT_TRIED
        else Status.INVALID
        if failure.reason in REFUSED
        else Status.FAILED
    )
    return Verdict(status=status, reason=failure.reason, detail=failure.message)


def _judge_validation(found: CaseValidation | None, kind: Kind, must: str | None) -> Verdict | None:
    if found is None:
        return Verdict(status=Status.SKIPPED, reason=Reason.NOT_MEASURED, detail="there is no validation record")
    if found.failure is not None:
        return judge_failure(found.failure)
    if found.outcome is Outcome.FAIL:
        reason = Reason.EXPECTED_INVALID if must == Status.INVALID else Reason.RED_GATE
        return Verdict(status=Status.INVALID, reason=reason, detail=found.message)
    if must == Status.INVALID and found.outcome is Outcome.FALLBACK:
        detail = "what the gate has to refuse fell back to its reference here"
        return Verdict(status=Status.SKIPPED, reason=Reason.UNSUPPORTED, detail=detail)
    if must == Status.INVALID and found.outcome is Outcome.PASS:
        detail = "the gate had to refuse this phase and passed it"
        return Verdict(status=Status.INVALID, reason=Reason.ALARM_NOT_REFUSED, detail=detail)
    # a peer that solves a different problem is not compared with the reference, and says so
    if found.outcome is Outcome.SKIPPED and kind is not Kind.PEER:
        return Verdict(
            status=Status.SKIPPED, reason=Reason.NOT_MEASURED, detail=found.message or "the gate was skipped"
        )
    return None


def _judge_measurement(run: Run, variant: str, case: str) -> Verdict | None:
    found = run[variant].measured(case)
    if found is None:
        return Verdict(status=Status.SKIPPED, reason=Reason.NOT_MEASURED, detail="there is no measurement record")
    if found.skipped is not None:
        return judge_failure(found.skipped)
    arm = run[variant].arm(case)
    if arm is not None and arm.failure is not None:
        return judge_failure(arm.failure)
    if (refusal := find_refusal(found)) is not None:
        return judge_failure(refusal)
    if arm is not None and arm.outputs_held is False:
        detail = "outputs checked again after timing no longer agree with the reference"
        return Verdict(status=Status.INVALID, reason=Reason.RED_GATE, detail=detail)
    if not run[variant].is_here:
        detail = f"measured on {run.need(Measurement, variant).machine}, this run belongs to {run.machine.identity}"
        return Verdict(status=Status.INCONCLUSIVE, reason=Reason.OTHER_MACHINE, detail=detail)
    return None


def _judge_headline(run: Run, variant: str, case: str) -> Verdict | None:
    """What was wrong in the rounds of the headline is wrong; one that only failed there has its own rounds still."""
    headline = run.headline(case)
    arm = next((arm for arm in headline.arms if arm.variant == variant), None) if headline is not None else None
    if headline is None or arm is None:
        return None
    failure = find_refusal(headline, arm.arm) or arm.failure
    return judge_failure(failure) if failure is not None and failure.reason in REFUSED else None
