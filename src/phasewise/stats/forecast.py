"""Predicted intervals: how wide one has to be, and what it was worth once the value is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phasewise.stats.ratio import require_finite, t_quantile


def next_value(values: Sequence[float], *, level: float) -> tuple[float, float]:
    """Student's interval that the next value of the same normal law lies in with probability `level`.

    Raises ValueError for fewer than two values, and for values that are not finite.
    """
    seen = require_finite(values, "values to predict the next of")
    if seen.size < 2:
        raise ValueError("one value says nothing of the next one's distance; at least two are needed")
    half = t_quantile(1.0 - level, seen.size - 1) * float(seen.std(ddof=1)) * math.sqrt(1.0 + 1.0 / seen.size)
    middle = float(np.mean(seen))
    return middle - half, middle + half


def interval_score(low: float, high: float, value: float, *, level: float) -> float:
    """Winkler's score of an interval at `level`: its width, and a fine for how far the value lies outside; less is better.

    Its mean is least for the interval that leaves out (1 - level) / 2 at either end: Winkler (1972), JASA 67, 187-191;
    Gneiting & Raftery (2007), JASA 102, section 6.2.
    """
    outside = max(0.0, low - value, value - high)
    return (high - low) + 2.0 / (1.0 - level) * outside
