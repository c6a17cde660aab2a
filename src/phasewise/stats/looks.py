"""What a comparison that may stop early has to pay for having looked.

The stopping rule looks at the interval's *width*. It stops where the variance came out small by luck, so the
plain interval at the stop is too short: with 3 to 10 sets it misses up to 9 % instead of 5 %. `paid_error`
finds the two-sided error that each look's t quantile may spend so that the interval at the stop misses at most
`1 - level`, whatever the true noise is.

Fixed-width sequential intervals: Chow & Robbins (1965), Ann. Math. Statist. 36, 457-462; Starr (1966), ibid.
37, 36-50. The looks share one nominal error, as in Pocock (1977), Biometrika 64, 191-199.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phasewise.stats.special import ndtr, stdtr, stdtrit
from phasewise.stats.trimmed import kept_rounds

# Monte-Carlo error of a miss rate is under 0.0005 with these draws: each draw gives a probability, not a hit or
# a miss
DRAWS = 10_000
# with more the looks cost nothing that could be seen
MOST_POOLED_DF = 64
# true noise over wanted half-width, of one set or round: below all designs stop at the first look, above at the last
NOISE_RATIOS = np.geomspace(0.2, 6.0, 18)


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRules:
    """How much to measure: bounds on rounds and sets, and the half-width that is wanted.

    With one set, the looks are at rounds; else they are after sets, and rounds only balance the two kinds of noise.
    A budget known in advance to allow fewer sets should lower `most_sets`: fewer looks cost less.
    """

    least_rounds: int = 12
    most_rounds: int = 60
    rounds_a_look: int = 3
    least_sets: int = 3
    most_sets: int = 10
    # stop when the half-width of the log-ratio is under max(half_width, share * |log-ratio|)
    half_width: float = 0.005
    share: float = 0.25
    # (log-ratio, sets): and where every round lies beyond so large an effect after so many sets, whose intervals leave out 1.
    # No look is paid for that: it is far from no effect
    clear: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.least_rounds <= self.most_rounds or self.rounds_a_look < 1:
            raise ValueError(
                f"stop rules: rounds {self.least_rounds} to {self.most_rounds} by {self.rounds_a_look}; "
                "allowed is 2 <= least_rounds <= most_rounds, rounds_a_look >= 1"
            )
        # one set says nothing of the noise between sets, so no comparison of several may stop at one
        if not (self.most_sets == self.least_sets == 1 or 2 <= self.least_sets <= self.most_sets):
            raise ValueError(
                f"stop rules: sets {self.least_sets} to {self.most_sets}; allowed is 1 to 1, or 2 <= least <= most"
            )
        if self.half_width <= 0 or self.share < 0:
            raise ValueError(f"stop rules: half_width {self.half_width}, share {self.share}; they must be positive")


def paid_error(rules: StopRules | None, *, level: float, pooled_df: float = 0.0) -> float:
    """The two-sided error for the t quantile at any look; `1 - level` where nothing can stop early.

    `pooled_df`: degrees of freedom of a variance that comes from other comparisons and that this one's looks
    did not choose.
    """
    if rules is None:
        return 1.0 - level
    if rules.most_sets > 1:
        sizes = tuple(range(rules.least_sets, rules.most_sets + 1))
    else:
        looks = range(rules.least_rounds, rules.most_rounds + rules.rounds_a_look, rules.rounds_a_look)
        # a trimmed mean has the degrees of freedom of the rounds that it keeps
        sizes = tuple(sorted({kept_rounds(min(n, rules.most_rounds)) for n in looks}))
    return _solve(sizes, round(1.0 - level, 9), rules.share, _floor_to_power(pooled_df))


def _floor_to_power(df: float) -> int:
    """The power of two below, so that few designs are ever solved; fewer degrees of freedom pay more."""
    return min(2 ** int(math.log2(df)), MOST_POOLED_DF) if df >= 1.0 else 0


@lru_cache
def _solve(sizes: tuple[int, ...], error: float, share: float, pooled_df: int) -> float:
    """The largest nominal error, to three significant digits, whose worst miss rate is within `error`."""
    if len(sizes) < 2:
        return error
    misses = _simulate_misses(np.array(sizes), share, pooled_df)
    low, high = error / 10.0, error
    while high - low > 0.002 * error:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if misses(middle) <= error else (low, middle)
    return low


def _simulate_misses(sizes: np.ndarray, share: float, pooled_df: int) -> Callable[[float], float]:
    """nominal error -> worst miss rate over the true noise, for looks at these sample sizes of normal values."""
    rng = np.random.default_rng(0)
    steps = np.diff(sizes, prepend=1)
    squares = np.cumsum(rng.chisquare(steps, size=(DRAWS, sizes.size)), axis=1)
    squares += rng.chisquare(pooled_df, size=(DRAWS, 1)) if pooled_df else 0.0
    dfs = sizes - 1 + pooled_df
    # sample sd over true sd; the mean of a normal sample is independent of it, so misses are integrated, not counted
    sds = np.sqrt(squares / dfs)

    def worst_miss_rate(nominal: float) -> float:
        quantiles = -stdtrit(dfs, nominal / 2.0)
        missed = 2.0 * ndtr(-quantiles * sds)
        rates = []
        for noise in NOISE_RATIOS:
            stops = quantiles * sds * noise / np.sqrt(sizes) < 1.0
            stops[:, -1] = True
            rates.append(missed[np.arange(DRAWS), stops.argmax(axis=1)].mean())
        # stops for an estimate so large that `share` of it is enough: under no effect each of them is a miss
        early = 2.0 * stdtr(dfs[:-1], -quantiles[:-1] / share).sum() if share else 0.0
        return max(rates) + early

    return worst_miss_rate
