"""From a gate and a measurement to the verdict on a candidate: wrong before slow, and a ratio only for what is right."""

from __future__ import annotations

import math
from enum import IntEnum

from phasewise.model.ratios import paired_log_ratios, step_times
from phasewise.model.refusals import find_refusal
from phasewise.records.base import Interval, Record, Seconds
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Reason, Status
from phasewise.stats import aa_floor, decide_status, estimate_ratio, p50

WRONG = "wrong"
GUARD = "guard"


class ExitCode(IntEnum):
    """What `phasewise judge` ends with."""

    FASTER = 0
    USAGE = 2
    SAME = 10
    SLOWER = 11
    UNDECIDED = 12
    WRONG = 20
    CHEAT = 21
    CRASH = 30
    OURS = 70


class Judgement(Record, frozen=True, kw_only=True):
    """The verdict with all that it was decided from."""

    schema: int = 2
    base: str
    candidate: str
    device: str
    status: Status
    # a Reason, "wrong" or "guard"
    reason: str = ""
    detail: str = ""
    # how many times as fast the candidate is; None where it is wrong or was not timed
    ratio: Interval | None = None
    # what the ratio has to clear: how far two processes of the base stray
    noise_limit: float | None = None
    base_s: Seconds | None = None
    candidate_s: Seconds | None = None
    # what the reference was computed in, and how far a result may lie from it
    reference: str
    allowance: Allowance
    # as many times the tier, since the base itself is off by more than that allows
    widened: float = 1.0
    gate: CaseValidation
    measurement: CaseMeasurement | None = None

    @property
    def worst(self) -> float | None:
        """Largest error of the candidate in units of what is allowed."""
        errors = [error.worst for error in self.gate.errors]
        if self.measurement is not None:
            errors += [one.worst for one in self.measurement.inspections if one.arm == "variant"]
        return max((error for error in errors if error is not None), default=None)

    @property
    def exit_code(self) -> ExitCode:
        if self.status is Status.INVALID:
            return ExitCode.WRONG if self.reason == WRONG else ExitCode.CHEAT
        return {
            Status.FASTER: ExitCode.FASTER, Status.SAME: ExitCode.SAME, Status.SLOWER: ExitCode.SLOWER,
            Status.FAILED: ExitCode.CRASH,
        }.get(self.status, ExitCode.UNDECIDED)  # fmt: skip


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


def judge_times(measured: CaseMeasurement, about: dict[str, object]) -> dict[str, object]:
    """Fields of the judgement that come from the arms "parent", "variant" and "control"; `about` stays as it is."""
    failure = next((arm.failure for arm in measured.arms if arm.arm == "variant" and arm.failure is not None), None)
    refusal = find_refusal(measured)
    if refusal is not None:
        return about | {"status": Status.INVALID, "reason": refusal.reason, "detail": refusal.message}
    if failure is not None:
        return about | {"status": Status.FAILED, "reason": failure.reason, "detail": failure.message}
    logs = paired_log_ratios(measured, "parent", "variant")
    if not logs:
        return about | {"status": Status.INCONCLUSIVE, "reason": Reason.FEW_ROUNDS, "detail": measured.stopped}
    ratio = estimate_ratio(logs)
    control = paired_log_ratios(measured, "parent", "control")
    limit = aa_floor([estimate_ratio(control)]) if control else None
    decided = decide_status(ratio, aa_floor=limit)
    return about | {
        "status": Status(decided.status), "reason": decided.reason,
        "ratio": Interval(estimate=ratio.estimate, low=ratio.low, high=ratio.high),
        "noise_limit": None if limit is None else math.expm1(limit),
        "base_s": _step_s(measured, "parent"), "candidate_s": _step_s(measured, "variant"),
    }  # fmt: skip


def _step_s(measured: CaseMeasurement, arm: str) -> float:
    return p50([time for taken in step_times(measured, arm) for time in taken])
