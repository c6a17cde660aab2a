"""Phases of the plan that a variant is not built on yet, by the finding that each answers."""

from __future__ import annotations

from phasewise.records.plan import Kind, PlannedVariant, RunPlan


def open_phases(run_plan: RunPlan, variant: str, case: str) -> dict[str, str]:
    """Finding id -> first phase of the plan that answers it and that `variant` is not built on."""
    # a row names the ancestors in its first case only
    done, row = {variant}, find_variant(run_plan, variant)
    while row is not None and (parent := planned_parent(run_plan, row, case)) is not None:
        done.add(parent)
        row = find_variant(run_plan, parent)
    answers: dict[str, str] = {}
    for phase in run_plan.phases:
        if phase.variant not in done and case in phase.cases and not phase.because_is_idea and phase.must is None:
            answers.setdefault(phase.because, phase.phase)
    return answers


def find_variant(run_plan: RunPlan, variant: str) -> PlannedVariant | None:
    """The row of a variant."""
    return next((row for row in run_plan.variants if row.variant == variant), None)


def planned_parent(run_plan: RunPlan, row: PlannedVariant, case: str) -> str | None:
    """What `row` is built on in `case`; the plan names the parent in its first case only.

    Elsewhere the rule of stacking gives it: the last kept variant before it that applies to the case; where the parent in
    the first case is not that one, the phase says `onto`.
    """
    if not row.cases or case == row.cases[0] or row.kind is not Kind.PHASE:
        return row.parent
    before = run_plan.variants[: run_plan.variants.index(row)]
    if row.parent == _last_kept(before, row.cases[0]):
        return _last_kept(before, case)
    return next((name for name in row.ancestors if _applies(run_plan, name, case)), row.parent)


def _last_kept(rows: tuple[PlannedVariant, ...], case: str) -> str | None:
    kept = [row.variant for row in rows if row.kept and case in row.cases and not row.skip and not row.untimed]
    return kept[-1] if kept else None


def _applies(run_plan: RunPlan, variant: str, case: str) -> bool:
    row = find_variant(run_plan, variant)
    return row is not None and case in row.cases
