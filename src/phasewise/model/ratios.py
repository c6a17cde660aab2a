"""From the raw samples of a record to times and ratios: the one way in which every stage computes them."""

from __future__ import annotations

from math import log

from msgspec import structs

from phasewise.model.headline import FEW, MANY
from phasewise.model.refusals import LEAST_SETS
from phasewise.records.measure import CaseMeasurement, Round
from phasewise.records.plan import Budget
from phasewise.stats import RatioEstimate, StopRules, estimate_ratio
from phasewise.stats.verdict import LEAST_OF_ONE_SET

# (log-ratio, sets): where every round is beyond that ratio, so many sets are enough. With one set nothing under 3x is clear, since one process of
# a launch-bound program was up to twice as slow as another, from start to end
CLEAR = ((log(LEAST_OF_ONE_SET), 1), (log(1.5), 2))
# every round of a headline is beyond that ratio
HEADLINE_CLEAR = 3.0
# how `CaseMeasurement.stopped` reads where the amount of data was fixed beforehand, so that no look is to be paid for
SLOW = "slow"
ALONE = "alone"
FIXED = frozenset({SLOW, ALONE})


def stop_rules(budget: Budget) -> StopRules:
    """The rules under which a comparison of this budget stops."""
    least = max(2, budget.min_rounds)
    return StopRules(
        least_rounds=least,
        most_rounds=max(least, budget.max_rounds),
        least_sets=budget.min_sets,
        most_sets=max(budget.min_sets, budget.max_sets),
        clear=CLEAR,
    )


def stop_headline(budget: Budget) -> StopRules:
    """Three sets of processes where every round is beyond 3x, else five; one where the budget allows no more."""
    rounds = max(2, budget.min_rounds)
    if budget.max_sets == 1:
        return StopRules(least_rounds=rounds, most_rounds=rounds, least_sets=1, most_sets=1)
    clear = ((log(HEADLINE_CLEAR), FEW),)
    return StopRules(least_rounds=rounds, most_rounds=rounds, least_sets=MANY, most_sets=MANY, clear=clear)


def stop_own(budget: Budget) -> StopRules:
    """The same for a variant whose own rounds are the headline: in a single set it may have more, as any other."""
    return stop_rules(budget) if budget.max_sets == 1 else stop_headline(budget)


def stop_alone(budget: Budget) -> StopRules:
    """How much of what is compared with nothing is timed: no interval becomes narrower by more sets than rules on its times ask for."""
    rounds, sets = max(2, budget.min_rounds), min(budget.min_sets, LEAST_SETS)
    return StopRules(least_rounds=rounds, most_rounds=rounds, least_sets=sets, most_sets=sets)


def paired_log_ratios(case: CaseMeasurement, numerator: str, denominator: str) -> list[list[float]]:
    """log(time per item of `numerator` / time per item of `denominator`) of each round that counts, a list a process set.

    The speed-up of a variant is `paired_log_ratios(case, "parent", "variant")`. Sets without such a round are left out.
    """
    items = {arm.arm: arm.items for arm in case.arms}
    sets: dict[int, list[float]] = {}
    for taken in kept_rounds(case):
        times = {sample.arm: sample.wall_s / sample.steps / items[sample.arm] for sample in taken.samples}
        if times.get(numerator, 0.0) > 0.0 and times.get(denominator, 0.0) > 0.0:
            sets.setdefault(taken.process_set, []).append(log(times[numerator] / times[denominator]))
    return [sets[number] for number in sorted(sets)]


def cycle_log_ratios(measured: CaseMeasurement, numerator: str, denominator: str) -> list[list[float]]:
    """`paired_log_ratios` of time times SM clock; empty where a clock is missing."""
    rounds = kept_rounds(measured)
    samples = [sample for taken in rounds for sample in taken.samples if sample.arm in (numerator, denominator)]
    if not samples or not all(sample.sm_clock_mhz for sample in samples):
        return []
    # a round in cycles is a round whose blocks lasted as long as their cycles do at 1 MHz
    scaled = [_in_cycles(taken) for taken in rounds]
    return paired_log_ratios(structs.replace(measured, rounds=tuple(scaled)), numerator, denominator)


def step_times(case: CaseMeasurement, arm: str) -> list[list[float]]:
    """Seconds a step of each block of `arm` that counts, host to host, a list a process set."""
    sets: dict[int, list[float]] = {}
    for taken in kept_rounds(case):
        for sample in taken.samples:
            if sample.arm == arm:
                sets.setdefault(taken.process_set, []).append(sample.wall_s / sample.steps)
    return [sets[number] for number in sorted(sets)]


def estimate_speedup(
    case: CaseMeasurement,
    budget: Budget,
    *,
    slower: str = "parent",
    faster: str = "variant",
) -> RatioEstimate | None:
    """time per item of `slower` over that of `faster`, with its interval; None without a round of both."""
    sets = paired_log_ratios(case, slower, faster)
    if not sets:
        return None
    rules = None if case.stopped in FIXED else stop_rules(budget)
    return estimate_ratio(sets, rules=rules)


def dropped_share(case: CaseMeasurement) -> float:
    """Dropped rounds over all rounds; 0 without rounds."""
    return sum(bool(taken.dropped) for taken in case.rounds) / len(case.rounds) if case.rounds else 0.0


def kept_rounds(case: CaseMeasurement) -> list[Round]:
    """Rounds that count."""
    return [taken for taken in case.rounds if not taken.dropped]


def _in_cycles(taken: Round) -> Round:
    samples = tuple(
        structs.replace(sample, wall_s=sample.wall_s * (sample.sm_clock_mhz or 1.0)) for sample in taken.samples
    )
    return structs.replace(taken, samples=samples)
