"""What a workload or a phase sets for itself as a tolerance is seen, and has a reason."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.model.workload import DEFAULT_TIERS, Tolerance, Workload
from phasewise.records.errors import PlanError


def check_tolerances(workload: Workload, place: str) -> None:
    """Raise PlanError with one sentence at the first tolerance that is wider than usual and does not say why."""
    for owner, tolerance, needs_reason in _list_own(workload, place):
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
