"""Why a measurement can't be believed: rules on what was inspected while it ran. Nothing is run, nothing is random."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from phasewise.records.measure import Arrival, CaseMeasurement, Refresh, Sample
from phasewise.records.verdict import Failure, Reason
from phasewise.stats import trimmed_mean
from phasewise.stats.ratio import t_quantile

# every block is longer by the parent's clock than by the worker's. An arm's difference may exceed the other arms' by the most of: so many
# seconds, a share of the block, and so many times what theirs varies by
CLOCK_S = 1e-3
CLOCK_SHARE = 0.02
CLOCK_SPREADS = 6
# an arm whose difference is more than this share of its block owes its ratio to it: a smaller multiple is allowed, and one set is enough
GROSS_SHARE = 0.5
GROSS_SPREADS = 2
# a pass over new contents may take so many times as long as one over the same contents written again, or EXCESS_S longer
REMEMBERED = 1.10
# a one-sided bound of 99 %: 1 % in each of two tails
REFRESH_SPENT = 0.02
# fewer pairs of passes give no bound
LEAST_PAIRS = 4
# how much longer than as many steps of a long block a pass over new contents may take, beyond how much longer the parent's does: the arm's
# steps once more, this share of the parent's steps, or so many seconds, whichever is most
EXCESS_SHARE = 0.25
EXCESS_S = 50e-6
# how much of what an arm saves in long blocks may be missing from the arrival of new contents to the delivery of results: this share of what
# the parent takes for that, or so many seconds. What was never sorted before takes twice as long to sort, and a host is slow in spells
MISSING_SHARE = 0.5
MISSING_S = 2e-4
# where this share is missing one set is enough
MISSING_GROSS = 0.75
# so many of the fastest passes agree, to MISSING_S or to this share, before a time is known
REPEATED = 3
AGREED = 0.1
# time to hand over is left out up to so many times the parent's: a hook may touch what it is given as many times (bench/hooks.py)
MOST_HANDING = 16
# a step of a long block takes at least this part of a step of a short one
SHORTENED = 2 / 3
# sets from which rules on times speak, since a host may be slow for the whole of one; gross cases need fewer
LEAST_SETS = 2


def find_refusal(measured: CaseMeasurement, arm: str = "variant", least_sets: int = LEAST_SETS) -> Failure | None:
    """Why the times of `arm` are not believed; None if they are. Rules on times speak from `least_sets` on, or in gross cases."""
    wrong = next((one.wrong for one in measured.inspections if one.arm == arm and one.wrong), "")
    if wrong:
        return Failure(reason=Reason.WRONG_WHEN_TIMED, message=wrong)
    for reason, find in (
        (Reason.STOPWATCH, find_late_clock(measured, arm, least_sets)),
        (Reason.REMEMBERS, find_memory(measured.refreshes)),
        (Reason.REMEMBERS, find_repeats(measured, arm, least_sets)),
        (Reason.REMEMBERS, find_late_work(measured, arm, least_sets)),
        (Reason.SKIPS_STEPS, find_skipped_steps(measured, arm, least_sets)),
    ):
        if find:
            return Failure(reason=reason, message=find)
    return None


def find_late_clock(measured: CaseMeasurement, arm: str, least_sets: int) -> str:
    """A sentence if in every set the arm's blocks are longer by the parent's clock than by its own, and by more than other arms' are.

    A question and its answer take as long for every arm, on a busy machine too, so the others tell how long, and how much that
    varies. An arm alone is not judged: the machine may be busy, and its times enter no ratio.
    """
    excesses, sets = [], _sets_of(measured).values()
    for samples in sets:
        own = [sample for sample in samples if sample.arm == arm and sample.parent_s is not None]
        others = [_way_s(sample) for sample in samples if sample.arm != arm and sample.parent_s is not None]
        if not own or not others:
            return ""
        usual = median(others)
        spread = median(abs(way - usual) for way in others)
        block = median(sample.parent_s or 0.0 for sample in own)
        # in an only set every block has to be late
        excess = (median if len(sets) >= LEAST_SETS else min)(map(_way_s, own)) - usual
        is_gross = excess > GROSS_SHARE * median(sample.wall_s for sample in own)
        if len(sets) < least_sets and not is_gross:
            return ""
        spreads = GROSS_SPREADS if is_gross and len(sets) >= LEAST_SETS else CLOCK_SPREADS
        # on a busy machine an answer comes at once or after another process's turn, and a median may fall on either side
        late = max(others) - usual
        excesses.append((excess, max(CLOCK_S, CLOCK_SHARE * block, spreads * spread, late)))
    if not excesses or not all(excess > allowed for excess, allowed in excesses):
        return ""
    excess, allowed = min(excesses)
    return f"a block takes {excess * 1e3:.3g} ms longer than its process says, and {allowed * 1e3:.3g} ms are allowed"


def find_memory(refreshes: Sequence[Refresh]) -> str:
    """A sentence if new contents cost more than the same contents written again, in two sets or in the only one."""
    told = [pair for pair in refreshes if _is_telling(pair)]
    return _describe_excess(
        [(pair.process_set, _log_ratio(pair.fresh, pair.sham)) for pair in told],
        told,
        "as the same contents written again",
    )


def tells_of_memory(counted: Iterable[Refresh]) -> bool:
    """Whether new contents cost more operators than the same contents written again, or than those of many passes, in any of these pairs."""
    others = ((pair.fresh, other) for pair in counted for other in (pair.sham, pair.many) if other is not None)
    return any(_log_ratio(fresh, other) > math.log(REMEMBERED) for fresh, other in others)


def find_repeats(measured: CaseMeasurement, arm: str, least_sets: int) -> str:
    """A sentence if a step costs less among many than in a pass over new contents.

    So does one of a program that computes each batch once a block and repeats the result in the rest of it; `find_memory` does
    not see that, since new contents take it as long as old ones. Counted operators tell it at once. Times are compared with the
    parent's, since a pass of a few steps also has a start and an end.
    """
    counted = [pair for pair in measured.refreshes if pair.many is not None]
    if counted:
        parts = [(pair.process_set, _log_ratio(pair.fresh, pair.many or 0.0)) for pair in counted]
        return _describe_excess(parts, counted, "as many passes in a row, each")
    found = []
    for number, samples in _sets_of(measured).items():
        own, theirs = _step_s(samples, arm), _step_s(samples, "parent")
        pairs = [
            pair
            for pair in measured.refreshes
            if pair.process_set == number and pair.parent is not None and _is_telling(pair)
        ]
        if own is None or theirs is None or len(pairs) < LEAST_PAIRS:
            continue
        steps = pairs[0].steps
        excess = [(pair.fresh - steps * own) - ((pair.parent or 0.0) - steps * theirs) for pair in pairs]
        allowed = max(steps * own, EXCESS_SHARE * steps * theirs, EXCESS_S)
        low = _lower_bound(excess)
        found.append((low > allowed, steps * own, low))
    if sum(is_late for is_late, _, _ in found) < least_sets:
        return ""
    _, told, low = min(one for one in found if one[0])
    return (
        f"a pass over new contents takes at least {low * 1e3:.3g} ms more than its steps in a long block, {told * 1e3:.3g} ms, "
        "and more than the parent's has"
    )


def find_late_work(measured: CaseMeasurement, arm: str, least_sets: int) -> str:
    """A sentence if much of what the arm saves in long blocks is missing from the arrival of new contents to the delivery of results.

    A program that remembers, or works while no step is timed, saves nothing there, whatever code or process does the work. Where passes
    are of several lengths, the one counts that tells most.
    """
    found = []
    for number, samples in _sets_of(measured).items():
        own_s, theirs_s = _step_s(samples, arm), _step_s(samples, "parent")
        if own_s is None or theirs_s is None:
            continue
        here = [one for one in measured.arrivals if one.process_set == number]
        passes = []
        for steps in {one.steps for one in here}:
            own, theirs = (_find_fastest(here, name, steps) for name in (arm, "parent"))
            if own is None or theirs is None:
                continue
            base_s = theirs.whole_s - theirs.handing_s
            taken_s = own.whole_s - min(own.handing_s, MOST_HANDING * theirs.handing_s)
            # long blocks are disturbed more: on a busy machine others have their turns in each of them, and in the fastest pass nobody has.
            # A short one also has a start and an end, which no program saves
            work_s = min(base_s, steps * theirs_s, math.inf if theirs.steps_s is None else theirs.steps_s)
            saved = work_s * (1 - own_s / theirs_s)
            missing = saved - (base_s - taken_s)
            # the variant's own may be apart because it wants them to be
            noise_s = _find_gap([one.whole_s for one in here if one.arm == "parent" and one.steps == steps])
            is_late = saved > 0 and missing > max(MISSING_SHARE * work_s, MISSING_S, noise_s)
            passes.append((is_late, missing > MISSING_GROSS * work_s, saved, missing))
        if passes:
            found.append(max(passes))
    late = [one for one in found if one[0]]
    if not late or len(late) < len(found) or (len(late) < least_sets and not all(is_gross for _, is_gross, *_ in late)):
        return ""
    *_, saved, missing = min(late)
    return (
        f"its steps in long blocks would save {saved * 1e3:.3g} ms, of which {missing * 1e3:.3g} ms are missing from when new contents arrive "
        "until results are delivered"
    )


def is_unsettled(arrivals: Sequence[Arrival], number: int, steps: int) -> bool:
    """Whether the fastest passes of so many steps in a set do not agree, in either arm."""
    here = [one for one in arrivals if one.process_set == number and one.steps == steps]
    times_s = [[one.whole_s for one in here if one.arm == arm] for arm in ("parent", "variant")]
    return any(_find_gap(times) > max(MISSING_S, AGREED * min(times)) for times in times_s)


def _find_gap(times_s: Sequence[float]) -> float:
    """Seconds between the fastest and the last of the fastest few; 0 for fewer than eight times."""
    ordered = sorted(times_s)
    return ordered[min(REPEATED - 1, len(ordered) // 8)] - ordered[0]


def _find_fastest(arrivals: Sequence[Arrival], arm: str, steps: int) -> Arrival | None:
    """The shortest of each time, of passes of so many steps: disturbances make both longer."""
    here = [one for one in arrivals if one.arm == arm and one.steps == steps]
    if not here:
        return None
    steps_s = min((one.steps_s for one in here if one.steps_s is not None), default=None)
    whole_s, handing_s = min(one.whole_s for one in here), min(one.handing_s for one in here)
    return msgspec.structs.replace(here[0], whole_s=whole_s, handing_s=handing_s, steps_s=steps_s)


def _is_telling(pair: Refresh) -> bool:
    """Whether what came before both passes was the same; a count does not depend on it."""
    return pair.at_once or pair.unit == "operators"


def _describe_excess(logs: Sequence[tuple[int, float]], refreshes: Sequence[Refresh], other: str) -> str:
    bounds = []
    for number in sorted({one for one, _ in logs}):
        here = [log for one, log in logs if one == number]
        if refreshes[0].unit == "operators":
            # a count knows no noise
            bounds.append(min(here))
        elif len(here) >= LEAST_PAIRS:
            longer = [pair.fresh - pair.sham for pair in refreshes if pair.process_set == number]
            bounds.append(_lower_bound(here) if _lower_bound(longer) > EXCESS_S else 0.0)
    suspicious = [low for low in bounds if low > math.log(REMEMBERED)]
    if not suspicious or len(suspicious) < min(LEAST_SETS, len(bounds)):
        return ""
    what = "many operators" if refreshes[0].unit == "operators" else "long"
    return f"new contents take at least {math.exp(min(suspicious)):.2f} times as {what} {other}"


def _lower_bound(values: Sequence[float]) -> float:
    centre = trimmed_mean(values)
    return centre.estimate - t_quantile(REFRESH_SPENT, centre.df) * centre.standard_error


def _log_ratio(one: float, other: float) -> float:
    return math.log(max(one, 1e-12) / max(other, 1e-12))


def find_skipped_steps(measured: CaseMeasurement, arm: str, least_sets: int) -> str:
    """A sentence if a step of a long block takes much less than one of the blocks that are short enough to be judged.

    Blocks also have a start and an end, so the time of a step is the slope between blocks of one step and of many.
    """
    parts = []
    for number, samples in _sets_of(measured).items():
        blocks = [one for one in measured.short_blocks if one.arm == arm and one.process_set == number]
        long = _step_s(samples, arm)
        most = max((one.steps for one in blocks), default=0)
        ends = ([one.wall_s for one in blocks if one.steps == 1], [one.wall_s for one in blocks if one.steps == most])
        if long is None or most < 2 or min(map(len, ends)) == 0:
            continue
        # the fastest of each: whatever disturbs makes a block longer
        slope = (min(ends[1]) - min(ends[0])) / (most - 1)
        if slope > 0:
            parts.append(long / slope)
    few = [part for part in parts if part < SHORTENED]
    if len(few) < least_sets or len(few) < len(parts):
        return ""
    return f"a step of a long block takes {max(few):.2f} of one of a short block"


def _sets_of(measured: CaseMeasurement) -> dict[int, list[Sample]]:
    """The samples of each set of processes, by its number."""
    found: dict[int, list[Sample]] = {}
    for taken in measured.rounds:
        found.setdefault(taken.process_set, []).extend(taken.samples)
    return found


def _step_s(samples: Sequence[Sample], arm: str) -> float | None:
    """Median seconds of a step in the blocks of an arm; None where it has none."""
    times = [sample.wall_s / sample.steps for sample in samples if sample.arm == arm]
    return median(times) if times else None


def _way_s(sample: Sample) -> float:
    """Seconds by which a block is longer by the parent's clock than by the worker's."""
    return (sample.parent_s or 0.0) - sample.wall_s
