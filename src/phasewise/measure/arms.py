"""Which arms a variant is measured beside, and whether it may be measured at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.model.ratios import find_arm, step_times
from phasewise.records.base import find_case
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, PlannedCase, VariantPlan
from phasewise.records.validate import Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.stats import p50

# of the memory of a GPU: what is open at once takes no more
AT_ONCE = 0.5


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One arm: its name in the comparison, and the plan that it is built from."""

    arm: str
    plan: VariantPlan
    spare_if_slow: bool = False


Plans = Mapping[str, VariantPlan]
Gates = Mapping[str, Validation]
Measured = Mapping[str, Measurement]


def refuse(plan: VariantPlan, case: PlannedCase, gates: Gates, measured: Measured) -> Failure | None:
    """Why `plan` is not timed in `case`: no speed is reported on a red gate. None if it may be.

    A control is judged by the gate of the variant that it repeats, and is none where that is on record as slow.
    """
    unmet = plan.skip or plan.untimed
    if unmet:
        return Failure(reason=Reason.NEEDS, message=unmet)
    subject = case.parent if plan.kind is Kind.CONTROL and case.parent else plan.variant
    failure = _judge(subject, case.case, gates, unchecked=plan.kind is Kind.PEER)
    if failure is None and plan.kind is Kind.CONTROL:
        step_s = known_step_s(measured.get(subject), case.case, subject)
        if step_s is not None and step_s > plan.budget.slow_step_s:
            return too_slow_to_repeat(plan)
    return failure


def too_slow_to_repeat(control: VariantPlan) -> Failure:
    """Why a variant with slow steps has no control."""
    message = f"a step takes over {control.budget.slow_step_s:g} s; an A/A control would take too long"
    return Failure(reason=Reason.OVER_BUDGET, message=message)


def choose_arms(
    plan: VariantPlan, case: PlannedCase, plans: Plans, gates: Gates, measured: Measured
) -> tuple[Chosen, ...]:
    """The arms of one comparison, the variant last.

    baseline, parent and variant; two arms where the parent is the baseline; one for the baseline itself. A control is the
    parent twice, a peer stands against the variant of ours that the plan sets it beside. The parent is the nearest
    ancestor whose gate is green. A baseline that is measured at smaller shapes never runs at this one. Beside another
    parent it is spared if it is slow, and not even started where that is known from the parent's own measurement.
    """
    variant = Chosen(arm="variant", plan=plan)
    if plan.kind is Kind.BASELINE:
        return (variant,)
    if plan.kind is Kind.CONTROL:
        return (Chosen(arm="parent", plan=plans[case.parent or plan.variant]), variant)
    parent = find_parent(case, plans, gates)
    found = [variant]
    if parent is not None:
        found.insert(0, Chosen(arm="parent", plan=parent))
    baseline = _find_baseline(case, plans, gates)
    if plan.kind is not Kind.PEER and baseline is not None and baseline is not parent:
        beside = None if parent is None else measured.get(parent.variant)
        step_s = known_step_s(beside, case.case, baseline.variant)
        if step_s is None or step_s <= plan.budget.slow_step_s:
            found.insert(0, Chosen(arm="baseline", plan=baseline, spare_if_slow=True))
    return tuple(found)


def fit_at_once(chosen: Sequence[Chosen], case: PlannedCase, gates: Gates, sets: int, gpu_memory_bytes: int) -> bool:
    """Whether the processes of `sets` sets fit on the GPU together, each as large as its gate was; no where that is not known."""
    peaks = []
    for arm in chosen:
        name = case.parent if arm.plan.kind is Kind.CONTROL and case.parent else arm.plan.variant
        gate = find_case(gates.get(name), case.case)
        if gate is None or gate.peak_memory_bytes is None:
            return False
        peaks.append(gate.peak_memory_bytes)
    return sets * sum(peaks) < AT_ONCE * gpu_memory_bytes


def find_parent(case: PlannedCase, plans: Plans, gates: Gates) -> VariantPlan | None:
    """The nearest ancestor that may be timed in this case; None if there is none."""
    for name in case.ancestors:
        plan = plans.get(name)
        if plan is not None and _may_run(plan, case.case, gates):
            return plan
    return None


def _find_baseline(case: PlannedCase, plans: Plans, gates: Gates) -> VariantPlan | None:
    for name in reversed(case.ancestors):
        plan = plans.get(name)
        if plan is not None and plan.kind is Kind.BASELINE and _may_run(plan, case.case, gates):
            return plan
    return None


def known_step_s(record: Measurement | None, case: str, variant: str) -> float | None:
    """Seconds of a step of `variant` on record; infinity where it was too slow to be timed there, None where nothing is known."""
    found = find_case(record, case)
    if found is None:
        return None
    arm = next((arm for arm in found.arms if arm.variant == variant), None)
    if arm is None:
        # not even started beside a parent, for that reason
        return math.inf if find_arm(found, "parent") is not None else None
    times = [time for taken in step_times(found, arm.arm) for time in taken]
    if times:
        return p50(times)
    return math.inf if arm.failure is None and arm.first_step_s else None


def _may_run(plan: VariantPlan, case: str, gates: Gates) -> bool:
    planned = find_case(plan, case)
    return (
        planned is not None
        and not planned.baseline_at
        and not (plan.skip or plan.untimed)
        and _judge(plan.variant, case, gates, unchecked=False) is None
    )


def _judge(variant: str, case: str, gates: Gates, *, unchecked: bool) -> Failure | None:
    """The failure that the gate of `variant` amounts to; `unchecked`: a peer of another problem has no gate to pass."""
    gate = find_case(gates.get(variant), case)
    if gate is None:
        return Failure(reason=Reason.NOT_MEASURED, message=f"{variant} was not validated in {case}")
    if gate.failure is not None:
        return gate.failure
    if gate.outcome is Outcome.FAIL:
        return Failure(reason=Reason.RED_GATE, message=gate.message)
    if gate.outcome is Outcome.SKIPPED and not unchecked:
        return Failure(reason=Reason.NOT_MEASURED, message=gate.message)
    return None
