"""Yuen's 20 % trimmed mean of paired log-ratios, with its t-interval: the estimate within one process set.

One-sample form on the paired differences: Tukey & McLaughlin (1963), Sankhya A 25, 331-352; Yuen (1974),
Biometrika 61, 165-170; Wilcox, Introduction to Robust Estimation and Hypothesis Testing, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasewise.stats.ratio import require_finite, t_quantile

# Wilcox (section 4.3) recommends 20 %: little lost under the normal law, safe with a fifth of outliers on either side
TRIM = 0.20


@dataclass(frozen=True, kw_only=True, slots=True)
class TrimmedMean:
    """The trimmed mean of one set of rounds; `standard_error` is infinite and `df` 0 where there is one round."""

    estimate: float
    standard_error: float
    df: int
    rounds: int

    @property
    def variance(self) -> float:
        return self.standard_error**2


def trimmed_mean(values: Sequence[float] | np.ndarray) -> TrimmedMean:
    """Trimmed mean and winsorised standard error of one value a round.

    Below five rounds nothing can be trimmed and this is Student's mean and t; one round has an estimate and no error.
    Raises ValueError for no values and for values that are not finite.
    """
    rounds = require_finite(values, "rounds of a process set")
    n = rounds.size
    if n == 1:
        return TrimmedMean(estimate=float(rounds[0]), standard_error=math.inf, df=0, rounds=1)
    kept = kept_rounds(n)
    # a few dozen numbers: arrays would take ten times as long
    ordered = sorted(rounds.tolist())
    cut = (n - kept) // 2
    middle = ordered[cut : n - cut]
    winsorised = [middle[0]] * cut + middle + [middle[-1]] * cut
    centre = math.fsum(winsorised) / n
    # Yuen's d = (n - 1) s_w^2 / (h (h - 1)); identical values must give exactly zero, which their mean may miss by an ulp
    squares = math.fsum((value - centre) ** 2 for value in winsorised) if middle[0] != middle[-1] else 0.0
    error = math.sqrt(squares / (kept * (kept - 1)))
    return TrimmedMean(estimate=math.fsum(middle) / kept, standard_error=error, df=kept - 1, rounds=n)


def yuen_interval(values: Sequence[float] | np.ndarray, *, level: float = 0.95) -> tuple[float, float]:
    """The t-interval of the trimmed mean on the scale of the values; infinite for one round."""
    centre = trimmed_mean(values)
    half_width = t_quantile(1.0 - level, centre.df) * centre.standard_error
    return centre.estimate - half_width, centre.estimate + half_width


def kept_rounds(n: int) -> int:
    """Yuen's h: how many of n rounds are left after trimming both ends."""
    return n - 2 * math.floor(TRIM * n)
