"""When to stop measuring, and what to add if not: a pure decision, with all times as arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from phasewise.stats.looks import StopRules
from phasewise.stats.ratio import RatioEstimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where the measurement of one case stands. Times are in seconds, of all arms together."""

    # process sets started, the one that runs included
    sets: int
    # rounds kept in the set that runs
    rounds: int
    seconds_left: float
    # to start and warm up a fresh set
    seconds_a_set: float
    seconds_a_round: float
    # size of the log-ratio of the round nearest to no effect, of all comparisons; 0 where one has rounds on both sides of it
    nearest: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Continue:
    """Measure on: `rounds` more in this set of processes, or a fresh set with so many."""

    where: Literal["this-set", "fresh-set"]
    rounds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Measuring ends: precise enough, clear enough, out of budget, or at the most that the rules allow."""

    reason: Literal["precise", "clear", "budget", "limit"]


def decide_next(estimates: Sequence[RatioEstimate], *, rules: StopRules, progress: Standing) -> Continue | Stop:
    """The next step from the estimates so far, one for each comparison of the case that shall become precise.

    The estimates come from `estimate_ratio(..., rules=rules)`, so that the width which stops is the width that
    is shown. `estimates` may be empty while the first set has too few rounds. Nothing is started that the
    seconds left cannot finish.
    """
    step = _choose_step(estimates, rules, progress)
    if isinstance(step, Stop):
        return step
    cost = step.rounds * progress.seconds_a_round
    cost += progress.seconds_a_set if step.where == "fresh-set" else 0.0
    return step if cost <= progress.seconds_left else Stop(reason="budget")


def count_sure_sets(rules: StopRules, *, begun: int, nearest: float) -> int:
    """Sets that will be measured whatever they show: up to the first at which every round may be clear, by what `begun` of them showed."""
    return min([rules.least_sets, *(sets for beyond, sets in rules.clear if sets > begun and nearest >= beyond)])


def is_precise(ratio: RatioEstimate, rules: StopRules) -> bool:
    """Whether the interval is as narrow as the rules want: in absolute terms, or for an effect of this size."""
    return ratio.half_width < max(rules.half_width, rules.share * abs(ratio.log_estimate))


def _choose_step(estimates: Sequence[RatioEstimate], rules: StopRules, progress: Standing) -> Continue | Stop:
    if progress.sets == 0:
        return Continue(where="fresh-set", rounds=rules.least_rounds)
    if progress.rounds < rules.least_rounds:
        return Continue(where="this-set", rounds=rules.least_rounds - progress.rounds)
    if progress.sets >= rules.least_sets and estimates and all(is_precise(ratio, rules) for ratio in estimates):
        return Stop(reason="precise")
    if _is_clear(estimates, rules, progress):
        return Stop(reason="clear")
    more_rounds = min(rules.rounds_a_look, rules.most_rounds - progress.rounds)
    if more_rounds > 0 and progress.rounds < _worthwhile_rounds(estimates, rules, progress):
        return Continue(where="this-set", rounds=more_rounds)
    if progress.sets < rules.most_sets:
        return Continue(where="fresh-set", rounds=rules.least_rounds)
    return Stop(reason="limit")


def _is_clear(estimates: Sequence[RatioEstimate], rules: StopRules, progress: Standing) -> bool:
    """Whether every round lies far from no effect after so few sets, and these agree well enough for intervals that leave out 1."""
    if not any(progress.sets >= sets and progress.nearest >= beyond for beyond, sets in rules.clear):
        return False
    return not any(ratio.low <= 1.0 <= ratio.high for ratio in estimates)


def _worthwhile_rounds(estimates: Sequence[RatioEstimate], rules: StopRules, progress: Standing) -> float:
    """Rounds a set beyond which a fresh set is the better use of time, for the comparison that needs most.

    The optimum of two-stage sampling: sd within / sd between * sqrt(cost of a set / cost of a round); Cochran (1977),
    Sampling Techniques, section 10.6. With one set there is nothing but rounds to add.
    """
    if rules.most_sets == 1:
        return math.inf
    cost_ratio = progress.seconds_a_set / progress.seconds_a_round if progress.seconds_a_round > 0 else 1.0
    wanted = float(rules.least_rounds)
    for ratio in estimates:
        # the first set alone says nothing of the noise between sets
        if ratio.within_sd is None or ratio.between_sd is None:
            continue
        if ratio.within_sd > 0.0:
            spread = ratio.within_sd / ratio.between_sd if ratio.between_sd > 0.0 else math.inf
            wanted = max(wanted, spread * math.sqrt(cost_ratio))
    return wanted
