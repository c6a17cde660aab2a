"""The record of one comparison, and the t arithmetic on it.

Every ratio is time(parent) / time(variant): above 1 the variant is faster. All work is done on logarithms; only
`estimate`, `low` and `high` are on the ratio scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from phasewise.stats.special import stdtr, stdtrit

Method = Literal["one-set", "own-sets", "moderated", "chained"]

# the power that a resolution statement promises: Cohen (1988), Statistical Power Analysis, section 2.4
POWER = 0.80


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioEstimate:
    """A speed-up with its interval; `low` is 0 and `high` infinite where the data cannot give one."""

    estimate: float
    low: float
    high: float
    # what the interval covers, looks included
    level: float
    # one-set: nothing is known of process effects, and the interval holds for these processes only
    method: Method
    rounds: int
    sets: int
    # standard deviation of one round's log-ratio (robust); None where no set has two rounds
    within_sd: float | None
    # standard deviation of the log-ratio between process sets; None where nothing tells
    between_sd: float | None
    # degrees of freedom of the standard error
    df: float
    # smallest gain, as ratio - 1, found with 80 % power by data of this amount and noise
    resolution: float
    # of the log-ratio
    standard_error: float
    # two-sided error of the t quantile used: 1 - level, or less where looks were paid for
    spent: float
    # size of the log-ratio of the round nearest to no effect; 0 where rounds lie on both sides of it, or are not known
    nearest: float = 0.0

    @property
    def log_estimate(self) -> float:
        return math.log(self.estimate)

    @property
    def half_width(self) -> float:
        """Half the interval's width on the log scale."""
        return t_quantile(self.spent, self.df) * self.standard_error


def make_estimate(
    log_estimate: float,
    standard_error: float,
    df: float,
    *,
    level: float,
    spent: float | None = None,
    method: Method,
    rounds: int,
    sets: int,
    within_sd: float | None,
    between_sd: float | None,
) -> RatioEstimate:
    """The record that follows from a log-ratio, its standard error and its degrees of freedom (0: no interval)."""
    spent = 1.0 - level if spent is None else spent
    standard_error = standard_error if df > 0 else math.inf
    half_width = t_quantile(spent, df) * standard_error
    # the usual approximation of the noncentral t: quantiles of the test and of the power add up
    resolution = half_width + t_quantile(2.0 * (1.0 - POWER), df) * standard_error
    return RatioEstimate(
        estimate=math.exp(log_estimate),
        low=_exp(log_estimate - half_width),
        high=_exp(log_estimate + half_width),
        level=level,
        method=method,
        rounds=rounds,
        sets=sets,
        within_sd=within_sd,
        between_sd=between_sd,
        df=df,
        resolution=_exp(resolution) - 1.0,
        standard_error=standard_error,
        spent=spent,
    )


def p_value(ratio: RatioEstimate) -> float:
    """Two-sided p of "no difference"; below 1 - level exactly where the interval leaves out 1."""
    if math.isinf(ratio.standard_error):
        return 1.0
    if ratio.standard_error == 0.0:
        return 1.0 if ratio.log_estimate == 0.0 else 0.0
    tail = 2.0 * stdtr(ratio.df, -abs(ratio.log_estimate) / ratio.standard_error)
    return min(1.0, float(tail) * (1.0 - ratio.level) / ratio.spent)


def p_beyond(ratio: RatioEstimate, margin: float) -> float:
    """One-sided p of "the log-ratio is `margin` or more from 0", looks paid for: the larger of two tests.

    Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15, 657-680.
    """
    room = margin - abs(ratio.log_estimate)
    if math.isinf(ratio.standard_error):
        return 1.0
    if ratio.standard_error == 0.0:
        return 0.0 if room > 0.0 else 1.0
    tail = float(stdtr(ratio.df, -room / ratio.standard_error))
    return min(1.0, tail * (1.0 - ratio.level) / ratio.spent)


@lru_cache(maxsize=4096)
def t_quantile(spent: float, df: float) -> float:
    """Student's t that leaves `spent` in both tails together; 1 where `df` is 0 and the standard error infinite."""
    return float(-stdtrit(df, spent / 2.0)) if df > 0 else 1.0


def satterthwaite(parts: Iterable[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent (variance, df) parts, at least 1.

    Source: Satterthwaite (1946), Biometrics Bulletin 2, 110-114; Welch (1947), Biometrika 34, 28-35. Parts of
    variance 0 say nothing; where all are 0 the degrees of freedom add up.
    """
    parts = list(parts)
    total = sum(variance for variance, _ in parts)
    if total == 0.0:
        return sum(df for _, df in parts)
    if math.isinf(total) or any(variance > 0 and df == 0 for variance, df in parts):
        return 0.0
    return max(1.0, total**2 / sum(variance**2 / df for variance, df in parts if variance > 0))


def require_finite(values: Sequence[float] | np.ndarray, what: str) -> np.ndarray:
    """The values as a float64 vector; ValueError where there are none, or one is not finite."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{what}: expected a non-empty list of numbers, got shape {vector.shape}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise ValueError(f"{what}: entry {bad[0]} is {vector[bad[0]]}; drop the round before asking for statistics")
    return vector


def _exp(value: float) -> float:
    """exp without the overflow error: beyond the range of floats it is infinite."""
    return math.exp(value) if value < 700.0 else math.inf
