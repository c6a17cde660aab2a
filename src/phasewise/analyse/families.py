"""Families of comparisons: what corrects what, so that one phase more costs its own case and kind first."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from phasewise.analyse.compare import Key
from phasewise.stats import Chances, RatioEstimate, adjust_chances


class Against(StrEnum):
    """The kinds of claims that a report makes in a case."""

    # of a phase or an ablation, over what it was measured beside
    PARENT = "parent"
    # of ours over a peer
    PEER = "peer"
    # of a phase or an ablation, in the same rounds or chained
    BASELINE = "baseline"


# (case and variant, kind)
Claim = tuple[Key, Against]


def adjust(claims: Mapping[Claim, RatioEstimate]) -> dict[Claim, Chances]:
    """p-values after Holm within each family (case and kind), each at the report's level divided by the number of families."""
    families: dict[tuple[str, Against], list[Claim]] = {}
    for claim in claims:
        (case, _), against = claim
        families.setdefault((case, against), []).append(claim)
    adjusted = adjust_chances([[claims[claim] for claim in family] for family in families.values()])
    return {
        claim: chances
        for family, found in zip(families.values(), adjusted, strict=True)
        for claim, chances in zip(family, found, strict=True)
    }
