"""Holm's correction for many comparisons in one report, and for many families of them."""

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


def holm_families(families: Sequence[Sequence[float]]) -> list[list[float]]:
    """`holm` within each family, at the level over the number of families: so all of them together keep the level.

    A family that is claimed whole leaves its share to the others, so that what every comparison shows costs nobody
    anything. Source: the graphs of Bretz, Maurer, Brannath and Posch (2009), Statistics in Medicine 28, 586-604, with
    the weights 1 / families, Holm's within a family, and edges of weight 0 in the limit from one to the next.
    """
    within = [holm(family) for family in families]
    order = sorted((i for i, family in enumerate(within) if family), key=lambda i: max(within[i]))
    # smallest level that claims the first so many families whole
    needed = [0.0]
    for claimed, i in enumerate(order):
        needed.append(max(needed[-1], (len(order) - claimed) * max(within[i])))
    return [
        [
            min(1.0, *(max(needed[claimed], (len(order) - claimed) * p) for claimed in range(order.index(i) + 1)))
            for p in family
        ]
        for i, family in enumerate(within)
    ]
