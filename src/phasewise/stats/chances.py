"""The p-values that a status is decided by, alone and among all the comparisons of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from phasewise.stats.holm import holm_families
from phasewise.stats.ratio import RatioEstimate, p_beyond, p_value

# equivalent means within 1 % either way
SAME_MARGIN = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Chances:
    """p-values of what has to be refused before something is claimed."""

    # of "no difference"
    differs: float
    # of "`SAME_MARGIN` apart or more"
    same: float


def find_chances(ratio: RatioEstimate) -> Chances:
    """The p-values of one comparison alone."""
    return Chances(differs=p_value(ratio), same=p_beyond(ratio, math.log1p(SAME_MARGIN)))


def adjust_chances(families: Sequence[Sequence[RatioEstimate]]) -> list[list[Chances]]:
    """The p-values of all comparisons of a report, corrected for how many they are.

    Differences and equivalences are corrected apart: a report has at most 5 % for a false claim of either sort.
    """
    alone = [[find_chances(ratio) for ratio in family] for family in families]
    differs = holm_families([[chances.differs for chances in family] for family in alone])
    same = holm_families([[chances.same for chances in family] for family in alone])
    return [
        [Chances(differs=p, same=q) for p, q in zip(*family, strict=True)] for family in zip(differs, same, strict=True)
    ]
