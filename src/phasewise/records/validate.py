"""Validations: how far a variant lies from its float64 reference, and which checks it passed."""

from __future__ import annotations

from enum import StrEnum

from phasewise.records.base import Bytes, Quantity, Record, Seconds, StageRecord
from phasewise.records.verdict import Failure


class Outcome(StrEnum):
    """How a comparison, guard or check ended."""

    PASS = "pass"
    FAIL = "fail"
    # the result is right, and came from the reference because a kernel could not run here
    FALLBACK = "fallback"
    SKIPPED = "skipped"


class TensorError(Record, frozen=True, kw_only=True):
    """How one named tensor differs from the reference."""

    # "output", "state" or "gradient"
    kind: str
    name: str
    step: int
    elements: int
    max_abs: float | None
    # ||x - ref|| / ||ref||
    relative: float | None
    # largest |x - ref| / (atol + rtol |ref|): at most 1 is within the tier
    worst: float | None
    # index of that element
    where: tuple[int, ...] = ()
    # error over the baseline's own error; None where the baseline's is zero or unknown
    times_baseline: float | None = None
    outcome: Outcome
    message: str = ""


class Guard(Record, frozen=True, kw_only=True):
    """One trap for programs that only look right."""

    guard: str
    outcome: Outcome
    message: str = ""


def guard(name: str, problem: str) -> Guard:
    """PASS where there is no problem."""
    return Guard(guard=name, outcome=Outcome.FAIL if problem else Outcome.PASS, message=problem)


def skipped(name: str, reason: str) -> Guard:
    """A guard that could not be set."""
    return Guard(guard=name, outcome=Outcome.SKIPPED, message=reason)


class Series(Record, frozen=True, kw_only=True):
    """One line of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]


class Chart(Record, frozen=True, kw_only=True):
    """Optional chart data of a check."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log_y: bool = False


class CheckResult(Record, frozen=True, kw_only=True):
    """What one check of the workload found."""

    check: str
    outcome: Outcome
    message: str = ""
    numbers: dict[str, Quantity] = {}
    chart: Chart | None = None
    seconds: Seconds = 0.0


class CaseValidation(Record, frozen=True, kw_only=True):
    """One variant in one case."""

    case: str
    outcome: Outcome
    # one sentence: the first thing that failed, or why it was skipped
    message: str = ""
    # what it was compared with: "reference", or the variant that stands in for it
    against: str = "reference"
    sampled_items: int | None = None
    errors: tuple[TensorError, ...] = ()
    guards: tuple[Guard, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    # kernels that fell back to their reference, with the reason
    fallbacks: tuple[str, ...] = ()
    failure: Failure | None = None
    # that torch took of the GPU, with the reference; None on a CPU, and where a library beside torch takes its own
    peak_memory_bytes: Bytes | None = None
    # it has imported torch's compiler: what compiles does, and some of torch by the way
    has_compiler: bool = False
    seconds: Seconds = 0.0
    # names of the files that its process loaded; on record they stand with their hashes beside the cases
    loaded: tuple[str, ...] = ()


class Validation(StageRecord, frozen=True, kw_only=True):
    """The validate stage of one variant."""

    tier: str
    cases: tuple[CaseValidation, ...]
