"""Outcomes: a status, a reason code and numbers; prose is rendered from them."""

from __future__ import annotations

from enum import StrEnum

from phasewise.records.base import Interval, Record


class Status(StrEnum):
    """What became of a variant in one case."""

    BASELINE = "BASELINE"
    FASTER = "FASTER"
    SAME = "SAME"
    SLOWER = "SLOWER"
    INCONCLUSIVE = "INCONCLUSIVE"
    # the parent cannot run, this can
    ENABLED = "ENABLED"
    INVALID = "INVALID"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class Reason(StrEnum):
    """Why a status is what it is; the report turns each into a sentence."""

    INTERVAL_CLEARS_FLOOR = "interval-clears-floor"
    WITHIN_ONE_PERCENT = "within-one-percent"
    FEW_ROUNDS = "few-rounds"
    # one set of processes, and less than it may claim
    ONE_SET = "one-set"
    BELOW_FLOOR = "below-aa-floor"
    # a claim if it were the only comparison of the report
    MULTIPLICITY = "multiplicity"
    THROTTLED = "throttled"
    NEIGHBOUR = "neighbour"
    BIMODAL = "bimodal"
    # whole processes, or spells of them, are in one of two states
    BISTABLE = "bistable"
    # an arm got faster or slower while it was timed
    WARM_UP = "warm-up"
    PROCESS_SPREAD = "process-spread"
    # the parent took far longer beside the variant than it does otherwise
    PARENT_STRAYED = "parent-strayed"
    CLOCK = "clock"
    # the baseline is too slow for this shape
    SMALLER_SHAPES = "smaller-shapes"
    RED_GATE = "red-gate"
    EXPECTED_INVALID = "expected-invalid"
    # a phase that the gate had to refuse, and did not
    ALARM_NOT_REFUSED = "alarm-not-refused"
    # what a timed block gave was wrong
    WRONG_WHEN_TIMED = "wrong-when-timed"
    # new contents take longer than contents that it has seen
    REMEMBERS = "remembers"
    # the worker's clock stays behind the parent's
    STOPWATCH = "stopwatch"
    # long blocks take less a step than short ones
    SKIPS_STEPS = "skips-steps"
    # work where nothing is timed
    UNTIMED_WORK = "untimed-work"
    ABOVE_PEAK = "above-peak"
    OTHER_MACHINE = "other-machine"
    OUT_OF_MEMORY = "oom"
    CRASH = "crash"
    # from outside, for no reason that the kernel tells
    KILLED = "killed"
    TIMEOUT = "timeout"
    BAD_PROGRAM = "bad-program"
    NEEDS = "needs-unmet"
    UNSUPPORTED = "unsupported"
    CASE_NOT_CHOSEN = "case-not-chosen"
    NO_PARENT = "no-valid-parent"
    PARENT_CANNOT_RUN = "parent-cannot-run"
    NOT_MEASURED = "not-measured"
    OVER_BUDGET = "over-budget"
    NONE = "none"


class Level(StrEnum):
    """The highest target whose bound an interval reaches, or what stands against the lowest."""

    STRETCH = "stretch"
    TARGET = "target"
    MINIMUM = "minimum"
    # the study says that what is measured is not what the target means: neither reached nor missed
    DISOWNED = "disowned"
    # the interval straddles the lowest bound
    UNDECIDED = "undecided"
    MISSED = "missed"
    # there is no value
    NONE = "none"


class Failure(Record, frozen=True, kw_only=True):
    """Why a process could not do its work."""

    reason: Reason
    # one sentence for the reader; for a crash the last line of the traceback, with the user's file and line
    message: str
    # of an exception, from the user's first frame on
    traceback: str = ""


class Verdict(Record, frozen=True, kw_only=True):
    """A status with its reason and the numbers it was decided from."""

    status: Status
    reason: Reason = Reason.NONE
    # what a reason code cannot say, such as the unmet need
    detail: str = ""
    numbers: dict[str, float] = {}
    # speed-up of time per item over the parent
    over_parent: Interval | None = None
    # the same over the baseline; `chained` when it is a product of ratios
    over_baseline: Interval | None = None
    chained: bool = False
    # what the speed-up over the baseline is at least, where too few blocks were timed for an interval
    at_least: float | None = None
    # what may be claimed of it, decided as `status` is
    baseline_status: Status | None = None
    baseline_reason: Reason = Reason.NONE
