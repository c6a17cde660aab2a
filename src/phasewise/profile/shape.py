"""The shape at which a case is profiled, by all profilers alike."""

from __future__ import annotations

from phasewise.model.workload import Shape
from phasewise.records.plan import Kind, VariantPlan


def choose_shape(plan: VariantPlan, case: str) -> Shape | None:
    """The first of the smaller shapes where a slow baseline is measured; None for the case's own."""
    smaller = plan.case(case).baseline_at
    return Shape(**smaller[0]) if plan.kind is Kind.BASELINE and smaller else None
