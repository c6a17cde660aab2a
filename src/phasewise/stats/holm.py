"""Holm's correction for many comparisons in one report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasewise.stats.ratio import require_finite


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given: those up to 0.05 are claims with a family-wise error of 5 %.

    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70; needs no independence. Raises ValueError
    outside 0 to 1.
    """
    if len(p_values) == 0:
        return []
    p = require_finite(p_values, "p-values")
    if p.min() < 0.0 or p.max() > 1.0:
        raise ValueError(f"p-values: they range from {p.min()} to {p.max()}; they must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()
