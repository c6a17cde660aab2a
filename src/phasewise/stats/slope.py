"""Whether a warm-up is over: the step times no longer trend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from phasewise.stats.ratio import require_finite

WINDOWS = 3
WINDOW_STEPS = 10
# a trend of this relative size over the windows is a tenth of the smallest effect that is ever claimed
NEGLIGIBLE = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """Relative change of the step time over the last windows, with its interval; below 0 steps still get faster."""

    change: float
    low: float
    high: float

    @property
    def is_flat(self) -> bool:
        """Whether the interval contains 0, or lies so near it that it does not matter."""
        return self.low <= 0.0 <= self.high or max(abs(self.low), abs(self.high)) < NEGLIGIBLE


def measure_trend(
    step_seconds: Sequence[float], *, window: int = WINDOW_STEPS, windows: int = WINDOWS, level: float = 0.95
) -> Trend | None:
    """The trend over the last `windows` windows of `window` steps; None while there are fewer steps.

    Theil's slope of the logarithms with Sen's interval, which single slow steps do not move: Sen (1968), JASA
    63, 1379-1389. Raises ValueError for times that are not positive and finite.
    """
    times = require_finite(step_seconds, "step times of the warm-up")
    steps = window * windows
    if times.size < steps:
        return None
    last = times[-steps:]
    if last.min() <= 0.0:
        raise ValueError(f"step times of the warm-up: the shortest is {last.min()} s; times must be positive")
    change, low, high = (float(np.expm1(slope * (steps - 1))) for slope in _fit_slope(np.log(last), level))
    return Trend(change=change, low=low, high=high)


def _fit_slope(values: np.ndarray, level: float) -> tuple[float, float, float]:
    """Theil's slope of values at 0, 1, 2, ..., and the ends of Sen's interval, with his variance for ties (equation 2.6).

    That of scipy.stats, which takes most of a second to import, and each measurement is a process of its own.
    """
    n = values.size
    left, right = np.triu_indices(n, 1)
    slopes = np.sort((values[right] - values[left]) / (right - left))
    ties = np.unique(values, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - np.sum(ties * (ties - 1) * (2 * ties + 5))) / 18
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    low = max(round((slopes.size - reach) / 2) - 1, 0)
    high = min(round((slopes.size + reach) / 2), slopes.size - 1)
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def is_warm(step_seconds: Sequence[float], *, window: int = WINDOW_STEPS, windows: int = WINDOWS) -> bool:
    """Whether the last windows show no trend; False while there are too few steps."""
    trend = measure_trend(step_seconds, window=window, windows=windows)
    return trend is not None and trend.is_flat
