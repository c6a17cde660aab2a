"""From a gate and a measurement to the verdict on a candidate: wrong before slow, and a ratio only for what is right."""

from __future__ import annotations

import math

from phasewise.model.ratios import paired_log_ratios, step_times
from phasewise.model.refusals import find_refusal
from phasewise.records.base import Interval
from phasewise.records.judgement import GUARD, WRONG
from phasewise.records.measure import CaseMeasurement
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Reason, Status
from phasewise.stats import aa_floor, decide_status, estimate_ratio, p50


def refuse_at_gate(gate: CaseValidation) -> tuple[Status, str, str] | None:
    """Status, reason and detail of a candidate that is not timed; None if it may be."""
    if gate.failure is not None and gate.failure.reason is Reason.BAD_PROGRAM:
        return Status.INVALID, WRONG, gate.message
    if gate.failure is not None:
        return Status.FAILED, gate.failure.reason, gate.failure.message
    if gate.outcome is not Outcome.FAIL:
        return None
    is_wrong = any(error.outcome is Outcome.FAIL for error in gate.errors)
    return Status.INVALID, WRONG if is_wrong else GUARD, gate.message


def find_worst(gate: CaseValidation | None, measured: CaseMeasurement | None) -> float | None:
    """Largest error of the candidate in units of what is allowed; None where nothing was compared."""
    errors = [] if gate is None else [error.worst for error in gate.errors]
    if measured is not None:
        errors += [one.worst for one in measured.inspections if one.arm == "variant"]
    return max((error for error in errors if error is not None), default=None)


def judge_times(measured: CaseMeasurement) -> dict[str, object]:
    """Fields of the judgement that come from the arms "parent", "variant" and "control"."""
    failure = next((arm.failure for arm in measured.arms if arm.arm == "variant" and arm.failure is not None), None)
    refusal = find_refusal(measured)
    if refusal is not None:
        return {"status": Status.INVALID, "reason": refusal.reason, "detail": refusal.message}
    if failure is not None:
        return {
            "status": Status.FAILED,
            "reason": failure.reason,
            "detail": failure.message,
            "traceback": failure.traceback,
        }
    logs = paired_log_ratios(measured, "parent", "variant")
    if not logs:
        return {"status": Status.INCONCLUSIVE, "reason": Reason.FEW_ROUNDS, "detail": measured.stopped}
    ratio = estimate_ratio(logs)
    control = paired_log_ratios(measured, "parent", "control")
    limit = aa_floor([estimate_ratio(control)]) if control else None
    decided = decide_status(ratio, aa_floor=limit)
    return {
        "status": Status(decided.status), "reason": decided.reason,
        "ratio": Interval(estimate=ratio.estimate, low=ratio.low, high=ratio.high),
        "noise_limit": None if limit is None else math.expm1(limit),
        "base_s": _step_s(measured, "parent"), "candidate_s": _step_s(measured, "variant"),
    }  # fmt: skip


def _step_s(measured: CaseMeasurement, arm: str) -> float:
    return p50([time for taken in step_times(measured, arm) for time in taken])
