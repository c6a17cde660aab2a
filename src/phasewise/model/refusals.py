"""Why a measurement can't be believed: rules on what was inspected while it ran. Nothing is run, nothing is random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from phasewise.records.measure import CaseMeasurement, Refresh, Sample
from phasewise.records.verdict import Failure, Reason
from phasewise.stats import trimmed_mean
from phasewise.stats.ratio import t_quantile

# the parent's clock may be ahead of the worker's by the most of these, beyond what it is ahead of the other arms':
# seconds, a share of a block, so many times what the way there and back varies by
CLOCK_S = 1e-3
CLOCK_SHARE = 0.02
CLOCK_SPREADS = 6
# new contents may cost this much more than the same contents written again
REMEMBERED = 1.10
# one-sided 99 %, as both tails together
REFRESH_SPENT = 0.02
# a step of a long block may take this part of one of a short block, taken as a slope
SHORTENED = 2 / 3
# no rule that rests on time speaks after one set: spells of a host are as long
LEAST_SETS = 2


def find_refusal(measured: CaseMeasurement, arm: str = "variant") -> Failure | None:
    """Why the times of `arm` are not believed; None if they are."""
    wrong = next((one.wrong for one in measured.inspections if one.arm == arm and one.wrong), "")
    if wrong:
        return Failure(reason=Reason.WRONG_WHEN_TIMED, message=wrong)
    for reason, find in (
        (Reason.STOPWATCH, find_late_clock(measured, arm)),
        (Reason.REMEMBERS, find_memory(measured.refreshes)),
        (Reason.SKIPS_STEPS, find_skipped_steps(measured, arm)),
    ):
        if find:
            return Failure(reason=reason, message=find)
    return None


def find_late_clock(measured: CaseMeasurement, arm: str) -> str:
    """A sentence if the arm's clock stays behind the parent's in every set, by more than that of the other arms does.

    The way there and back is as long for every arm, on a busy machine too: so the others say what it takes, and how much that varies.
    """
    excesses = []
    for samples in _sets_of(measured).values():
        own = [sample for sample in samples if sample.arm == arm and sample.parent_s is not None]
        others = [_way_s(sample) for sample in samples if sample.arm != arm and sample.parent_s is not None]
        if not own:
            return ""
        usual = median(others) if others else 0.0
        spread = median(abs(way - usual) for way in others) if others else 0.0
        block = median(sample.parent_s or 0.0 for sample in own)
        allowed = max(CLOCK_S, CLOCK_SHARE * block, CLOCK_SPREADS * spread)
        excesses.append((median(map(_way_s, own)) - usual, allowed))
    if len(excesses) < LEAST_SETS or not all(excess > allowed for excess, allowed in excesses):
        return ""
    excess, allowed = min(excesses)
    return f"a block takes {excess * 1e3:.3g} ms longer than its process says, and {allowed * 1e3:.3g} ms are allowed"


def find_memory(refreshes: Sequence[Refresh]) -> str:
    """A sentence if new contents cost more than the same contents written again, in two sets."""
    bounds = []
    for number in sorted({pair.process_set for pair in refreshes}):
        logs = [
            math.log(max(pair.fresh, 1e-12) / max(pair.sham, 1e-12)) for pair in refreshes if pair.process_set == number
        ]
        if all(pair.unit == "operators" for pair in refreshes):
            # a count knows no noise
            bounds.append(min(logs))
        elif len(logs) > 1:
            centre = trimmed_mean(logs)
            bounds.append(centre.estimate - t_quantile(REFRESH_SPENT, centre.df) * centre.standard_error)
    suspicious = [low for low in bounds if low > math.log(REMEMBERED)]
    if len(suspicious) < min(LEAST_SETS, len(bounds)) or not suspicious:
        return ""
    times = math.exp(min(suspicious))
    what = "many operators" if refreshes[0].unit == "operators" else "long"
    return f"new contents take at least {times:.2f} times as {what} as the same contents written again"


def find_skipped_steps(measured: CaseMeasurement, arm: str) -> str:
    """A sentence if a step of a long block takes much less than one of the blocks that are short enough to be judged.

    A block of one step has a start and an end to it, so the time of a step is the slope between one and many.
    """
    parts = []
    for number, samples in _sets_of(measured).items():
        blocks = [one for one in measured.short_blocks if one.arm == arm and one.process_set == number]
        long = [sample.wall_s / sample.steps for sample in samples if sample.arm == arm]
        most = max((one.steps for one in blocks), default=0)
        ends = ([one.wall_s for one in blocks if one.steps == 1], [one.wall_s for one in blocks if one.steps == most])
        if not long or most < 2 or min(map(len, ends)) == 0:
            continue
        # the fastest of each: whatever disturbs makes a block longer
        slope = (min(ends[1]) - min(ends[0])) / (most - 1)
        if slope > 0:
            parts.append(median(long) / slope)
    few = [part for part in parts if part < SHORTENED]
    if len(few) < LEAST_SETS or len(few) < len(parts):
        return ""
    return f"a step of a long block takes {max(few):.2f} of one of a short block"


def _sets_of(measured: CaseMeasurement) -> dict[int, list[Sample]]:
    """The samples of each set of processes, by its number."""
    found: dict[int, list[Sample]] = {}
    for taken in measured.rounds:
        found.setdefault(taken.process_set, []).extend(taken.samples)
    return found


def _way_s(sample: Sample) -> float:
    """What the parent's clock has beyond the worker's, of one block."""
    return (sample.parent_s or 0.0) - sample.wall_s
