"""How wide a tolerance may be: what a workload or a phase sets for itself is seen, has a reason, and has a cap."""

from __future__ import annotations

import math
from collections.abc import Iterable

from phasewise.model.workload import DEFAULT_TIERS, Tolerance, Workload
from phasewise.records.errors import PlanError

# a result that is off by a tenth of itself is another result
MOST_RELATIVE = 0.1


def check_tolerances(workload: Workload, place: str) -> None:
    """Raise PlanError with one sentence at the first tolerance that is out of range, or wider than usual and does not say why."""
    for owner, tolerance, needs_reason in _list_own(workload, place):
        for name, value, least, most in (
            ("rtol", tolerance.rtol, 0.0, MOST_RELATIVE),
            ("atol", tolerance.atol, 0.0, math.inf),
            ("times_baseline", tolerance.times_baseline, 1.0, math.inf),
        ):
            if not least <= value <= most or math.isinf(value):
                allowed = f"{least:g} to {most:g}" if math.isfinite(most) else f"a finite number from {least:g} on"
                raise PlanError(f"{owner}: {name} is {value:g}; {allowed} is allowed")
        if needs_reason and not tolerance.why.strip():
            raise PlanError(
                f"{owner}: rtol {tolerance.rtol:g} and atol {tolerance.atol:g} need a reason, which reports print; give `why`"
            )


def _list_own(workload: Workload, place: str) -> Iterable[tuple[str, Tolerance, bool]]:
    """Where it stands, the tolerance, and whether it needs a reason: one that takes a tier's place always does."""
    for name, tolerance in workload.tiers.items():
        usual = DEFAULT_TIERS.get(name)
        wider = usual is not None and (tolerance.rtol > usual.rtol or tolerance.atol > usual.atol)
        yield f"{place}: tier {name!r}", tolerance, wider
    for phase in workload.phases:
        if phase.tolerance is not None:
            yield f"{place}: phase {phase.name!r}: tolerance", phase.tolerance, True
