"""Where the float64 reference covers a sample of a case: whose outputs the rest is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.model.stack import BASELINE
from phasewise.records.plan import PlannedCase, VariantPlan

# the second makes up for a first that is refused; a gate waits for both
MOST = 2


def name_stand_ins(case: PlannedCase, plans: Mapping[str, VariantPlan]) -> tuple[str, ...]:
    """Ancestors that run the whole shape in a single process, the eldest first: the first that passed its gate stands in.

    The baseline alone where it is one of them, since its gate is there before all others. Empty where the reference covers all
    items.
    """
    if case.sample_items is None:
        return ()
    able = [name for name in reversed(case.ancestors) if name in plans and _runs_whole(plans[name], case.case)]
    return tuple(able[:1] if BASELINE in able else able[:MOST])


def _runs_whole(plan: VariantPlan, case: str) -> bool:
    return plan.ranks == 1 and not any(planned.case == case and planned.baseline_at for planned in plan.cases)
