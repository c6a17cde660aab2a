"""Percentiles of single step times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasewise.stats.ratio import require_finite

# below this no sample is expected beyond the 99th percentile, and the figure would be the maximum under another name
LEAST_FOR_P99 = 100


def p50(values: Sequence[float]) -> float:
    """The median. Raises ValueError for no values and for values that are not finite."""
    return float(np.median(require_finite(values, "samples for p50")))


def p99(values: Sequence[float]) -> float | None:
    """The 99th percentile, interpolated linearly (Hyndman & Fan 1996, type 7); None under 100 samples."""
    samples = require_finite(values, "samples for p99")
    return float(np.quantile(samples, 0.99)) if samples.size >= LEAST_FOR_P99 else None
