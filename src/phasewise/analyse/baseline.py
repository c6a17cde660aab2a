"""Speed-ups over a baseline: in the same rounds, or a product of ratios where it ran in others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phasewise.analyse.compare import Comparison, Estimates, Key, chain
from phasewise.records.verdict import Status, Verdict
from phasewise.run import Run


@dataclass(frozen=True, kw_only=True)
class OverBaseline:
    """A speed-up over the baseline, and whether it is a product."""

    comparison: Comparison
    chained: bool


def over_baseline(
    run: Run, estimates: Estimates, key: Key, verdicts: Mapping[Key, Verdict | None]
) -> OverBaseline | None:
    """The speed-up over the baseline; None where a link is missing, could not run, or is on another machine.

    It is a product of ratios only where no headline has the baseline.

    `verdicts`: those of the gate; a link through a variant that may not tell its speed does not count.
    """
    links: list[Comparison] = []
    case, variant = key
    seen: set[str] = set()
    root = verdicts.get((case, run.baseline))
    # no speed is told against numbers that are wrong
    if root is not None and root.status is Status.INVALID:
        return None
    while variant not in seen:
        seen.add(variant)
        if verdicts.get((case, variant)) is not None:
            return None
        direct = estimates.over_baseline.get((case, variant))
        found = estimates.comparisons.get((case, variant))
        if direct is None and found is not None and found.against == run.baseline:
            direct = found
        if direct is None and case in estimates.headlines:
            return None
        if direct is not None:
            links.append(direct)
            return OverBaseline(comparison=chain(links), chained=len(links) > 1)
        if found is None:
            return None
        links.append(found)
        variant = found.against
    return None
