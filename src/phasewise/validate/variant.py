"""The validate stage: each case in a process of its own, on a GPU several side by side, then the sanitizer, which starts its own. Imports no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from phasewise.model.freshness import Closure
from phasewise.model.stand_ins import name_stand_ins
from phasewise.records.base import find_case
from phasewise.records.plan import Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.records.verdict import Reason
from phasewise.store import digest
from phasewise.validate.case import validate_case
from phasewise.validate.outcomes import conclude, is_sound, skipped_case
from phasewise.validate.sanitizer import run_sanitizer
from phasewise.workers.side_by_side import count_at_once, run_side_by_side, was_too_tight

# keeps jobs off the GPU: measurements if `shared`, else all
Lock = Callable[..., AbstractContextManager[None]]
# (plan, case, root, baseline, ancestor's plan) -> the record of one case
ValidateCase = Callable[[VariantPlan, str, Path, CaseValidation | None, VariantPlan | None], CaseValidation]


def validate_variant(
    plan: VariantPlan,
    plans: Mapping[str, VariantPlan],
    validations: Mapping[str, Validation],
    *,
    root: Path,
    machine: str,
    commit: str,
    closure: Closure | None = None,
    lock: Lock | None = None,
    validate_one: ValidateCase | None = None,
) -> Validation:
    """Validate every case of `plan`; a red gate, a skip and a dead process are finished jobs with the reason.

    `plans` and `validations` hold those of its ancestors. `closure` is of the workload's files as they
    stood when the stage began. `lock(shared=True)` keeps measurements off the GPU meanwhile, and
    `lock(shared=False)` everything: a case that ran out of memory beside others runs again there. `validate_one` stands in
    for the processes of a case in tests.
    """
    lock = _lock_nothing if lock is None else lock
    one = validate_case if validate_one is None else validate_one

    def judge(planned: PlannedCase) -> CaseValidation:
        if plan.skip is not None:
            return skipped_case(planned.case, Reason.NEEDS, plan.skip)
        baseline = _baseline(planned, plans, validations)
        ancestor = _ancestor(planned, plans, validations)
        return one(_scale_down(plan, planned), planned.case, root, baseline, ancestor)

    with lock(shared=True):
        cases = run_side_by_side(judge, plan.cases, count_at_once(plan))
        cases = _sanitize(plan, root, cases)
    if plan.device != "cpu" and any(map(was_too_tight, plan.cases, (found.failure for found in cases))):
        with lock(shared=False):
            cases = tuple(
                judge(planned) if was_too_tight(planned, found.failure) else found
                for planned, found in zip(plan.cases, cases, strict=True)
            )
    return Validation(
        workload=plan.workload,
        run=plan.run,
        variant=plan.variant,
        plan=digest(plan),
        machine=machine,
        commit=commit,
        loaded=None if closure is None else closure.stamp(_list_loaded(cases)),
        tier=plan.tier,
        cases=tuple(msgspec.structs.replace(found, loaded=()) for found in cases),
    )


def _list_loaded(cases: Iterable[CaseValidation]) -> list[tuple[str, ...]]:
    """The files of each process; a case that was skipped may have had none."""
    return [found.loaded for found in cases if found.loaded or found.outcome is not Outcome.SKIPPED]


@contextlib.contextmanager
def _lock_nothing(*, shared: bool) -> Iterator[None]:
    yield


def _scale_down(plan: VariantPlan, planned: PlannedCase) -> VariantPlan:
    """A baseline that is too slow at the real shape is validated at the larger of those where it is measured."""
    if not planned.baseline_at:
        return plan
    smaller = msgspec.structs.replace(planned, shape=planned.baseline_at[-1], sample_items=None)
    return msgspec.structs.replace(plan, cases=tuple(smaller if case is planned else case for case in plan.cases))


def _baseline(
    planned: PlannedCase, plans: Mapping[str, VariantPlan], validations: Mapping[str, Validation]
) -> CaseValidation | None:
    for name in planned.ancestors:
        if name in plans and plans[name].kind is Kind.BASELINE:
            return find_case(validations.get(name), planned.case)
    return None


def _ancestor(
    planned: PlannedCase, plans: Mapping[str, VariantPlan], validations: Mapping[str, Validation]
) -> VariantPlan | None:
    """The first that passed its gate of those that may stand in for the reference."""
    for name in name_stand_ins(planned, plans):
        if is_sound(find_case(validations.get(name), planned.case)):
            return plans[name]
    return None


def _sanitize(plan: VariantPlan, root: Path, cases: tuple[CaseValidation, ...]) -> tuple[CaseValidation, ...]:
    """Add the sanitizer's guards to the first case that has a result."""
    if "sanitizer" not in plan.profilers or plan.device == "cpu" or plan.ranks > 1:
        return cases
    for index, found in enumerate(cases):
        if found.failure is None:
            guards = (*found.guards, *run_sanitizer(plan, found.case, root))
            outcome, message = conclude(found.errors, guards, found.checks, found.fallbacks)
            kept = found.message if found.outcome is Outcome.FAIL else message
            changed = msgspec.structs.replace(found, guards=guards, outcome=outcome, message=kept)
            return (*cases[:index], changed, *cases[index + 1 :])
    return cases
