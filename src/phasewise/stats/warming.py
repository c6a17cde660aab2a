"""Whether an arm was still warming up while it was timed: ratios that trend within the process sets, all in the same way.

Arms in shuffled rounds share what the machine does; a trend of their ratio is one arm's own, and no interval over rounds
can tell it from a gain.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist, median

import numpy as np

# chance that rounds without a trend are said to have one: harmless, since it is small then
ERROR = 0.02
# thirds of fewer rounds are single values
LEAST_ROUNDS = 6
# the middles of the first third and of the last are two thirds of a set apart: a line changes by 1.5 times as much over all of it.
# What fades slowly moves the mean further than that, and thirds are noisy: a claim must clear twice the line
WHOLE = 2 * 1.5


def find_warming(sets: Sequence[Sequence[float] | np.ndarray]) -> float:
    """What a trend over the rounds of a set may have moved their mean log-ratio by, at most; 0 where a trend is chance.

    Kendall's S of values and time, summed over the sets: the seasonal Kendall test with a set for a season, which single
    disturbed rounds do not move; Hirsch, Slack & Smith (1982), Water Resources Research 18, 107-121. It knows no
    autocorrelation: where arms drift, each on its own, it is found more often.
    """
    long = [np.asarray(rounds, dtype=np.float64) for rounds in sets if len(rounds) >= LEAST_ROUNDS]
    if not long:
        return 0.0
    score = sum(_kendall(rounds) for rounds in long)
    deviation = math.sqrt(sum(_variance(rounds.size) for rounds in long))
    if abs(score) <= NormalDist().inv_cdf(1.0 - ERROR / 2.0) * deviation:
        return 0.0
    return WHOLE * abs(math.fsum(_change(rounds.tolist()) for rounds in long)) / len(long)


def _kendall(values: np.ndarray) -> float:
    """Pairs that fall less pairs that rise."""
    first, second = _list_pairs(values.size)
    return float(np.sign(values[first] - values[second]).sum())


@functools.lru_cache(maxsize=32)
def _list_pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of each earlier one and each later one of `n`."""
    return np.triu_indices(n, 1)


def _variance(n: int) -> float:
    """Of Kendall's S without a trend and without ties, which only lessen it."""
    return n * (n - 1) * (2 * n + 5) / 18.0


def _change(values: list[float]) -> float:
    """From the first third to the last."""
    third = len(values) // 3
    return median(values[:third]) - median(values[-third:])
