"""Prose from verdicts: one table of sentences for reasons, statuses, levels and outcomes."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.records.analyse import Finding, PartResult, PeerRow, TargetResult
from phasewise.records.base import Interval
from phasewise.records.ledger import Score
from phasewise.records.predict import Prediction
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.report import format as show
from phasewise.report.blocks import Tone

STATUS_TONES: dict[Status, Tone] = {
    Status.FASTER: "good", Status.ENABLED: "good", Status.SLOWER: "bad", Status.INVALID: "bad", Status.FAILED: "bad",
    Status.INCONCLUSIVE: "warn", Status.SAME: "muted", Status.SKIPPED: "muted", Status.BASELINE: "",
}  # fmt: skip

OUTCOME_TONES: dict[Outcome, Tone] = {
    Outcome.PASS: "good", Outcome.FAIL: "bad", Outcome.FALLBACK: "warn", Outcome.SKIPPED: "muted",
}  # fmt: skip

LEVEL_WORDS: dict[Level, str] = {
    Level.STRETCH: "stretch goal reached", Level.TARGET: "target reached", Level.MINIMUM: "minimum reached",
    Level.UNDECIDED: "undecided", Level.DISOWNED: "disowned", Level.MISSED: "missed", Level.NONE: "–",
}  # fmt: skip

LEVEL_TONES: dict[Level, Tone] = {
    Level.STRETCH: "good", Level.TARGET: "good", Level.MINIMUM: "warn",
    Level.UNDECIDED: "warn", Level.DISOWNED: "muted", Level.MISSED: "bad", Level.NONE: "muted",
}  # fmt: skip

RISK_TONES: dict[str, Tone] = {
    "did not come true": "good", "came true": "bad", "not checked": "warn", "by hand": "warn",
}  # fmt: skip

# one clause a reason; it follows the status, after a colon
REASONS: dict[Reason, str] = {
    Reason.INTERVAL_CLEARS_FLOOR: "the interval leaves out 1 and the estimate clears the noise limit of the A/A controls",
    Reason.WITHIN_ONE_PERCENT: "the whole interval lies within 1\u00a0% of no change",
    Reason.FEW_ROUNDS: "too few rounds count for an interval that could be trusted",
    Reason.ONE_SET: (
        "one set of processes claims nothing below 3×, since fresh ones may differ by as much; budget: standard in workflow/config.yaml "
        "takes up to six, thorough ten"
    ),
    Reason.BELOW_FLOOR: "the difference does not clear the noise limit of the A/A controls, which is 10\u00a0% where there is none",
    Reason.MULTIPLICITY: (
        "compared alone it would be called faster, slower or the same, but among so many comparisons one like it comes up by chance"
    ),
    Reason.THROTTLED: "the device throttled while it was measured",
    Reason.NEIGHBOUR: "other processes were busy on this machine",
    Reason.BIMODAL: "the ratios fall into two groups",
    Reason.BISTABLE: "what was timed is in one of two states, for a whole process or a spell of it",
    Reason.WARM_UP: "one arm got faster or slower while it was timed, by as much as the difference",
    Reason.PROCESS_SPREAD: "fresh processes differ by more than the rounds within them",
    Reason.CLOCK: "the clock of one arm differed from the other's",
    Reason.SMALLER_SHAPES: "the baseline is too slow for this shape, and a ratio at a smaller one says nothing of it",
    Reason.RED_GATE: "the validation gate is red, so no speed is reported",
    Reason.EXPECTED_INVALID: "the gate had to refuse it, and did",
    Reason.ALARM_NOT_REFUSED: "the gate had to refuse it, and let it pass",
    Reason.WRONG_WHEN_TIMED: "what a timed block gave was wrong, so no speed is reported",
    Reason.REMEMBERS: "new contents take longer than those that it has seen, so it does not always compute",
    Reason.STOPWATCH: "its own clock stays behind the judge's, so its times can't be believed",
    Reason.PARENT_STRAYED: "its parent took far longer beside it than otherwise, and that may be all of the gain",
    Reason.SKIPS_STEPS: "long blocks take less a step than short ones, which alone can be judged",
    Reason.UNTIMED_WORK: "it works where nothing is timed",
    Reason.ABOVE_PEAK: "it would need more than 105\u00a0% of the measured peak, so work must have been skipped",
    Reason.OTHER_MACHINE: "its records come from another machine, and ratios across machines are not chained",
    Reason.OUT_OF_MEMORY: "it ran out of memory",
    Reason.CRASH: "its process died",
    Reason.KILLED: "its process was killed from outside, which says nothing of the program",
    Reason.TIMEOUT: "it did not answer within the time allowed",
    Reason.BAD_PROGRAM: "the program broke its contract",
    Reason.NEEDS: "this machine does not have what it needs",
    Reason.UNSUPPORTED: "the program says that it can't be built here",
    Reason.CASE_NOT_CHOSEN: "this case was not chosen",
    Reason.NO_PARENT: "no valid ancestor was left to compare it with",
    Reason.PARENT_CANNOT_RUN: "its parent can't run here, and it can",
    Reason.NOT_MEASURED: "there is no measurement of it",
    Reason.OVER_BUDGET: "the time budget ended first",
    Reason.NONE: "",
}


def _faster(verdict: Verdict, parent: str) -> str:
    return f"{_times(verdict.over_parent)} as fast as {parent}"


def _slower(verdict: Verdict, parent: str) -> str:
    return f"Slower than {parent}, {_times(verdict.over_parent)} its speed"


def _same(verdict: Verdict, parent: str) -> str:
    return f"As fast as {parent}, {_times(verdict.over_parent)}"


def _inconclusive(verdict: Verdict, parent: str) -> str:
    if verdict.over_parent is None:
        return f"Can't be told from {parent}"
    return f"Can't be told from {parent}, {_times(verdict.over_parent)}"


STATUSES: dict[Status, Callable[[Verdict, str], str]] = {
    Status.BASELINE: lambda verdict, parent: "What all variants are compared with in the end",
    Status.FASTER: _faster,
    Status.SAME: _same,
    Status.SLOWER: _slower,
    Status.INCONCLUSIVE: _inconclusive,
    Status.ENABLED: lambda verdict, parent: f"Made possible: {parent} can't do this",
    Status.INVALID: lambda verdict, parent: "Refused",
    Status.FAILED: lambda verdict, parent: "Failed",
    Status.SKIPPED: lambda verdict, parent: "Skipped",
}


def _times(interval: Interval | None) -> str:
    return show.ratio_interval(interval)


def sentence(verdict: Verdict, parent: str | None) -> str:
    """The verdict in one sentence, over its parent."""
    opening = STATUSES[verdict.status](verdict, parent or "its parent")
    reasons = "; ".join(part for part in (REASONS[verdict.reason], show.clean(verdict.detail).rstrip(".")) if part)
    return f"{opening}: {reasons}." if reasons else f"{opening}."


def tone(verdict: Verdict) -> Tone:
    """How a status is to be taken: a refusal that was wanted is no bad news."""
    return "muted" if verdict.reason == Reason.EXPECTED_INVALID else STATUS_TONES[verdict.status]


def why(verdict: Verdict) -> str:
    """The reason alone, for a table cell."""
    return show.clean(verdict.detail) or REASONS[verdict.reason]


def part_sentence(part: PartResult) -> str:
    """Where a part of the plan ended."""
    if part.speedup is None:
        return "No speed-up over the baseline was measured at the end of this part."
    if part.status is Status.INCONCLUSIVE:
        return f"After this part the stack can't be told from the baseline, {_times(part.speedup)}."
    return f"After this part the stack is {_times(part.speedup)} as fast as the baseline."


def prediction(told: Prediction | None) -> str:
    """The interval of a prediction."""
    return "–" if told is None or told.low is None or told.high is None else show.ratio_range((told.low, told.high))


def predicted(told: Prediction) -> str:
    """A prediction with where it comes from, or why there is none."""
    if told.low is None:
        return f"nothing: {show.clean(told.reason)}"
    level = f" ({show.percent(told.level)} interval)" if told.level is not None else ""
    return f"{prediction(told)}{level}, {basis(told.basis)}"


def scored(score: Score) -> str:
    """A prediction with its outcome."""
    if score.void:
        return show.clean(score.void)
    if score.measured is None:
        return "not measured"
    if score.inside is None:
        return f"nothing was predicted: {show.clean(score.prediction.reason)}".rstrip(": ")
    return "inside the interval" if score.inside else "outside the interval"


BASES = {
    "critical-path": "from the critical path of the trace",
    "probe": "from a probe of the alternative",
    "author": "the author's own",
}


def basis(word: str) -> str:
    """Where a prediction or a gain comes from."""
    return BASES.get(word, show.clean(word))


FLOORS = {
    "memory": "bytes at the rate of a copy",
    "cache": "bytes at the rate of a copy within the cache",
    "compute": "operations at the rate of a matrix product",
    "launch": "one launch, as a node of a CUDA graph",
    "barriers": "launches that wait for one another, as nodes of a CUDA graph",
}


def floor(kind: str) -> str:
    """What the best possible time of a step consists of."""
    return FLOORS.get(kind, show.clean(kind))


def finding(found: Finding) -> str:
    """What a finding says, in one sentence without its advice."""
    if found.outcome == "abstained":
        return f"Abstained: {show.clean(found.reason).rstrip('.') or 'no reason was recorded'}."
    if found.outcome != "found":
        return "Looked for, and not there."
    holds = f"Holds {show.time(found.seconds)} of the step ({show.percent(found.share)})"
    gain = f"; without it the step would be {_times(found.gain)} as fast" if found.gain else ""
    return f"{holds}{gain}."


def target(result: TargetResult) -> str:
    """The evidence for a target: what was measured, or why there is nothing."""
    if result.value is None:
        return show.clean(result.reason) or "no value"
    return "; ".join(part for part in (_measured(result), show.clean(result.reason)) if part)


def _measured(result: TargetResult) -> str:
    if result.value is None or result.low is None or result.high is None:
        return show.metric(result.value, result.metric, result.unit)
    interval = Interval(estimate=result.value, low=result.low, high=result.high)
    if result.unit in ("s", "x") and result.metric not in show.SHARES:
        return show.time_interval(interval) if result.unit == "s" else show.ratio_interval(interval)
    shown, low, high = (show.metric(one, result.metric, result.unit) for one in (result.value, result.low, result.high))
    return f"{shown} [{low}, {high}]"


def peer(row: PeerRow) -> str:
    """A peer's outcome; its ratio is its time over ours."""
    if row.ratio is None:
        return why(row.verdict) or "No ratio was measured."
    # the status is the peer's
    if row.verdict.status is Status.SLOWER:
        return f"We are {_times(row.ratio)} as fast."
    if row.verdict.status is Status.FASTER:
        return f"It is faster: we are {_times(row.ratio)} as fast."
    if row.verdict.status is Status.SAME:
        return f"Neither is faster: {_times(row.ratio)}."
    return f"The two can't be told apart: {_times(row.ratio)}."
