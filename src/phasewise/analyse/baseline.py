"""Speed-ups over what was not in the same rounds: a product of ratios, or the baseline's seconds an item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from phasewise.analyse.compare import Comparison, Estimates, Key, chain
from phasewise.analyse.scale import PerItem, find_scale
from phasewise.model.ratios import find_parent_arm
from phasewise.records.verdict import Failure, Reason, Status, Verdict
from phasewise.run import Run
from phasewise.stats import RatioEstimate
from phasewise.stats.ratio import make_estimate, satterthwaite


@dataclass(frozen=True, kw_only=True)
class OverBaseline:
    """A speed-up over the baseline, and whether it is a product."""

    comparison: Comparison
    chained: bool


def over_extrapolated(per_item: PerItem, step: RatioEstimate, items: float) -> RatioEstimate:
    """Extrapolated baseline over a variant whose steps of `items` were timed: two independent times, not pairs."""
    variances = [(per_item.standard_error**2, per_item.df), (step.standard_error**2, step.df)]
    return make_estimate(
        per_item.log_seconds - (step.log_estimate - math.log(items)),
        math.sqrt(sum(variance for variance, _ in variances)),
        satterthwaite(variances),
        level=step.level,
        spent=step.spent,
        method="chained",
        rounds=step.rounds,
        sets=step.sets,
        within_sd=step.within_sd,
        between_sd=step.between_sd,
    )


def over_parent(run: Run, estimates: Estimates, key: Key) -> RatioEstimate | Failure | None:
    """The ratio to what the variant was measured beside; per item to an extrapolated baseline where that is its parent.

    A Failure says why a baseline can't be extrapolated.
    """
    found = estimates.comparisons.get(key)
    if found is not None:
        return found.ratio
    case, variant = key
    arm, measured = run[variant].arm(case), run[variant].measured(case)
    if measured is None or arm is None or key not in estimates.times or variant == run.baseline:
        return None
    # beside a valid ancestor that only failed to run there is nothing to extrapolate
    if find_parent_arm(measured) is not None:
        return None
    per_item = find_scale(run, variant, case)
    if per_item is None:
        return None
    if not per_item.is_linear:
        return Failure(reason=Reason.NOT_LINEAR, message=per_item.describe())
    return over_extrapolated(per_item, estimates.times[key], arm.items)


def over_baseline(
    run: Run, estimates: Estimates, key: Key, verdicts: Mapping[Key, Verdict | None]
) -> OverBaseline | None:
    """The speed-up over the baseline; None where a link is missing, could not run, or is on another machine.

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
        if direct is not None:
            links.append(direct)
            return OverBaseline(comparison=chain(links), chained=len(links) > 1)
        ratio = over_parent(run, estimates, (case, variant))
        if not isinstance(ratio, RatioEstimate):
            return None
        links.append(found or Comparison(against=run.baseline, ratio=ratio))
        if found is None:
            return OverBaseline(comparison=chain(links), chained=True)
        variant = found.against
    return None
