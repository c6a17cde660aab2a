"""A ratio that was never measured directly: the product of ratios along a chain of comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from phasewise.stats.ratio import RatioEstimate, make_estimate, satterthwaite


def chain_ratios(ratios: Sequence[RatioEstimate]) -> RatioEstimate:
    """The product, with log-scale variances added and Welch-Satterthwaite degrees of freedom.

    Holds for comparisons that share no process. `rounds` and `sets` are those of the weakest link. Raises
    ValueError for an empty chain, and for intervals of different levels.
    """
    levels = {ratio.level for ratio in ratios}
    if len(levels) != 1:
        raise ValueError(f"a chain needs one or more ratios of one level; the levels are {sorted(levels)}")
    if len(ratios) == 1:
        return ratios[0]
    variances = [ratio.standard_error**2 for ratio in ratios]
    return make_estimate(
        sum(ratio.log_estimate for ratio in ratios),
        math.sqrt(sum(variances)),
        satterthwaite(zip(variances, (ratio.df for ratio in ratios), strict=True)),
        level=levels.pop(),
        # looks of any link are paid for in the whole
        spent=min(ratio.spent for ratio in ratios),
        method="chained",
        rounds=min(ratio.rounds for ratio in ratios),
        sets=min(ratio.sets for ratio in ratios),
        within_sd=_add(ratios, lambda ratio: ratio.within_sd),
        between_sd=_add(ratios, lambda ratio: ratio.between_sd),
    )


def _add(ratios: Sequence[RatioEstimate], read: Callable[[RatioEstimate], float | None]) -> float | None:
    """Standard deviations of independent links in quadrature; None where one is unknown."""
    deviations = [read(ratio) for ratio in ratios]
    known = [deviation for deviation in deviations if deviation is not None]
    return math.hypot(*known) if len(known) == len(deviations) else None
