"""What is said of the speed-up of a stack: its interval or bound, and whether it is a claim."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, Row
from phasewise.records.base import Interval
from phasewise.records.verdict import Reason, Status
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Tone


def headline(case: CaseResult, row: Row | None) -> str:
    """What the whole run comes to, after its number."""
    speedup = case.stack_speedup
    if row is None or (speedup is None and case.stack_at_least is None):
        return "No speed-up over the baseline is on record"
    few = ", whose steps are too slow to be timed often enough for an interval"
    parts = [f"as fast as the baseline{few if speedup is None else f' {show.only_bounds(speedup)}'}"]
    if row.time_s is not None:
        parts.append(f"one step takes {show.time_interval(row.time_s)}")
    if row.host_bound and row.busy_s is not None:
        parts.append(f"host-bound: the GPU is busy for {show.time(row.busy_s)} of it")
    if row.items_per_s is not None:
        parts.append(show.rate(row.items_per_s, f"{case.item}/s"))
    if row.floor_fraction is not None:
        parts.append(f"{show.percent(row.floor_fraction)} of the best possible at the measured peaks")
    return ", ".join(parts)


def headline_tone(case: CaseResult) -> Tone:
    """Good or bad only where the number is a claim."""
    if case.stack_speedup is None:
        return ""
    claims: dict[Status | None, Tone] = {Status.FASTER: "good", Status.SLOWER: "bad"}
    return claims.get(case.stack_status, "warn")


def no_claim(case: CaseResult) -> str:
    """Why the number of the headline is no gain; nothing where it is one, or its opposite."""
    if case.stack_speedup is None or case.stack_status in (Status.FASTER, Status.SLOWER, Status.BASELINE):
        return ""
    if case.stack_status is Status.SAME:
        return f"Not a gain: {sentences.REASONS[case.stack_reason]}."
    if case.stack_status is None:
        return "Not a claim: the analysis on record did not hold it against the A/A control."
    why = sentences.REASONS[case.stack_reason]
    if case.stack_reason is Reason.BELOW_FLOOR:
        end = next((row for row in case.rows if row.variant == case.stack), None)
        limit = end.verdict.numbers.get("baseline_floor") if end is not None else None
        controls = [control for control in (case.control, case.baseline_control) if control is not None]
        if not controls:
            why = "without an A/A control only a difference of over 10\u00a0% is one"
        elif all(control.floor is None for control in controls):
            why = "its A/A control has one set of processes and tells no noise limit, so only a difference of over 10\u00a0% is one"
        elif limit is not None:
            why = f"A/A controls as noisy as it differ by up to {show.percent(limit)}"
    return f"Not a claim: {why}."


def speedup(interval: Interval | None, at_least: float | None = None) -> str:
    """A speed-up with its interval, or what it is at least."""
    return f"at least {show.ratio(at_least)}" if interval is None and at_least else show.ratio_interval(interval)


def mark(status: str | None, *, chained: bool) -> str:
    """What follows a speed-up in a table where it is a product of ratios, or no claim."""
    words = [word for word, holds in (("chained", chained), ("not a claim", status == Status.INCONCLUSIVE)) if holds]
    return f" ({', '.join(words)})" if words else ""
