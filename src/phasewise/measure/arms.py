"""Which arms a variant is measured beside, and whether it may be measured at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.records.base import find_case
from phasewise.records.plan import Kind, PlannedCase, VariantPlan
from phasewise.records.validate import Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import digest


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One arm: its name in the comparison, and the plan that it is built from."""

    arm: str
    plan: VariantPlan
    # single steps, placing and energy go on record
    is_told: bool = False
    # its first process compiles into empty caches, and how long that takes goes on record
    starts_cold: bool = False
    # one block a set where a step is slow
    once_if_slow: bool = False


Plans = Mapping[str, VariantPlan]
Gates = Mapping[str, Validation]


def keep_current(gates: Gates, plans: Plans) -> Gates:
    """The gates that were made from the present plans."""
    return {name: gate for name, gate in gates.items() if name not in plans or gate.plan in ("", digest(plans[name]))}


def refuse(plan: VariantPlan, case: str, gates: Gates) -> Failure | None:
    """Why `plan` is not timed in `case`: no speed is reported on a red gate. None if it may be."""
    unmet = plan.skip or plan.untimed
    if unmet:
        return Failure(reason=Reason.NEEDS, message=unmet)
    gate = find_case(gates.get(plan.variant), case)
    if gate is None:
        return Failure(reason=Reason.NOT_MEASURED, message=f"{plan.variant} was not validated in {case}")
    if gate.failure is not None:
        return gate.failure
    if gate.outcome is Outcome.FAIL:
        return Failure(reason=Reason.RED_GATE, message=gate.message)
    # a peer of another problem has no gate to pass
    if gate.outcome is Outcome.SKIPPED and plan.kind is not Kind.PEER:
        return Failure(reason=Reason.NOT_MEASURED, message=gate.message)
    return None


def choose_arms(
    plan: VariantPlan, case: PlannedCase, plans: Plans, gates: Gates, *, starts_cold: bool
) -> tuple[Chosen, ...]:
    """Parent and variant, the variant last; the variant alone where it is the baseline or has no parent that may be timed.

    The parent is the nearest ancestor whose gate is green; of a peer it is the variant of ours that the plan sets it beside.
    `starts_cold`: what its start takes with empty caches goes on record.
    """
    variant = Chosen(arm="variant", plan=plan, is_told=True, starts_cold=starts_cold)
    parent = None if plan.kind is Kind.BASELINE else find_timed(case.ancestors, case.case, plans, gates)
    return (variant,) if parent is None else (Chosen(arm="parent", plan=parent), variant)


def find_timed(names: Sequence[str], case: str, plans: Plans, gates: Gates) -> VariantPlan | None:
    """The first of these variants that may be timed in `case` at the shape of the others; None if none may."""
    found = (plans[name] for name in names if name in plans)
    return next((plan for plan in found if _has_shape(plan, case) and refuse(plan, case, gates) is None), None)


def _has_shape(plan: VariantPlan, case: str) -> bool:
    """Whether it runs at the shape of its case, and not at smaller ones."""
    planned = find_case(plan, case)
    return planned is not None and not planned.baseline_at
