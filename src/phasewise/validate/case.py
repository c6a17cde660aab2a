"""Validate one case of one variant: errors, guards and checks, put together into one record."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import BuiltCase, build_case, find_case
from phasewise.bench.functions import load_functions
from phasewise.model.program import Program
from phasewise.model.workload import Unsupported
from phasewise.records.plan import Allowance, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Guard, Outcome, TensorError
from phasewise.records.verdict import Reason
from phasewise.validate.compare import Errors, by_tensor, judge_all
from phasewise.validate.guard_poison import memory_poisoned
from phasewise.validate.guard_waiting import read_clock, read_threads
from phasewise.validate.guards import run_guard, run_guards
from phasewise.validate.outcomes import conclude, skipped_case
from phasewise.validate.run_checks import run_checks
from phasewise.validate.sample import choose_items, take
from phasewise.validate.trajectory import Named, Trajectory, follow
from phasewise.validate.trial import Trial, skipped
from phasewise.validate.yardstick import open_yardstick, solves_another_problem

# one step can't show a result that is stale
FEWEST_STEPS = 2


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """A validated variant's results, which stand in for the reference where that covers a sample only."""

    variant: str
    results: Trajectory


def validate_case(
    plan: VariantPlan,
    case: str,
    root: Path,
    *,
    baseline: CaseValidation | None = None,
    ancestor: Ancestor | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> CaseValidation:
    """Hold `case` of variant `plan` against its float64 reference, in this process.

    `baseline` gives the baseline's own errors, None for the baseline itself. `ancestor` is used where the reference covers
    only a sample of items. An error raised by the program or its reference goes through to the caller.
    """
    planned = find_case(plan, case)
    started = clock()
    try:
        found = _validate(plan, planned, root, by_tensor(baseline), ancestor)
    except Unsupported as reason:
        found = skipped_case(case, Reason.UNSUPPORTED, str(reason))
    return msgspec.structs.replace(found, seconds=clock() - started)


def count_steps(planned: PlannedCase) -> int:
    """Steps that both the reference and the variant follow."""
    return max(FEWEST_STEPS, planned.steps)


def sampled_items(
    plan: VariantPlan, planned: PlannedCase, root: Path, ancestor: Ancestor | None
) -> torch.Tensor | None:
    """Indices of the items that the reference covers; None for all.

    How many items there are is seen from the ancestor's outputs, else from a build of the variant for that alone: the
    reference has to run before the variant does.
    """

    def outputs() -> Named:
        if ancestor is not None:
            return ancestor.results.outputs[0]
        opened = build_case(plan, planned.case, root, ring=1)
        try:
            return follow(opened, 1).outputs[0]
        finally:
            opened.program.close()

    return choose_items(planned, outputs, plan.seed)


def _validate(
    plan: VariantPlan, planned: PlannedCase, root: Path, baseline: Errors, ancestor: Ancestor | None
) -> CaseValidation:
    functions = load_functions(plan.source, root)
    if solves_another_problem(plan, functions):
        # no variant of ours gives what it gives
        ancestor = None
    items = None if solves_another_problem(plan, functions) else sampled_items(plan, planned, root, ancestor)
    steps = count_steps(planned)
    clock, threads = read_clock(), read_threads()
    yardstick = open_yardstick(plan, planned, functions, root, items=items, ring=steps)
    if isinstance(yardstick, str):
        # nothing was refused: there is only nothing to hold it against, and it is timed all the same
        return CaseValidation(case=planned.case, outcome=Outcome.SKIPPED, message=yardstick)
    # before the variant is built: nothing that it does can reach the reference
    reference = follow(yardstick, steps)
    yardstick.program.close()
    opened = build_case(plan, planned.case, root, ring=steps)
    try:
        first = follow(opened, steps)
        trial = Trial(
            case=opened,
            reference=reference,
            first=first,
            allowance=plan.allowance,
            pristine=yardstick.batches,
            clock=clock,
            threads=threads,
        )
        guards = run_guards(trial)
    finally:
        opened.program.close()
    fallbacks, foreign = tuple(opened.program.fallbacks), opened.program.sync is not None
    # what follows builds programs of its own: this one's memory is given back first
    opened = release(opened)
    trial = replace(trial, case=opened)
    gc.collect()
    if opened.device.type == "cuda":
        torch.cuda.empty_cache()
    checks = run_checks(opened, root)
    # last, since compiled code may keep what it saw
    guards += (run_guard(partial(memory_poisoned, root=root), trial), *_beyond_the_sample(items, ancestor))
    errors = compare_with_reference(first, reference, items, plan.allowance, baseline)
    if items is not None and ancestor is not None:
        errors += compare_with_ancestor(first, ancestor, plan.allowance)
    outcome, message = conclude(errors, guards, checks, fallbacks)
    return CaseValidation(
        case=planned.case,
        outcome=outcome,
        message=message,
        against=ancestor.variant if items is not None and ancestor is not None else "reference",
        sampled_items=None if items is None else len(items),
        errors=errors,
        guards=guards,
        checks=checks,
        fallbacks=fallbacks,
        peak_memory_bytes=torch.cuda.max_memory_reserved() if opened.device.type == "cuda" and not foreign else None,
    )


def release(case: BuiltCase) -> BuiltCase:
    """The case without its program, whose memory is free once the caller holds no other reference."""
    return replace(case, program=Program(step=_closed), initial={})


def compare_with_reference(
    first: Trajectory, reference: Trajectory, items: torch.Tensor | None, allowance: Allowance, baseline: Errors
) -> tuple[TensorError, ...]:
    """Outputs of every step, then the state at the end with its gradients."""
    errors: tuple[TensorError, ...] = ()
    for step, (now, expected) in enumerate(zip(first.outputs, reference.outputs, strict=True)):
        errors += judge_all("output", step, take(now, expected, items), expected, allowance, baseline)
    if reference.state is not None:
        last = take(first.state or {}, reference.state, items)
        errors += judge_all("state", len(reference.outputs) - 1, last, reference.state, allowance, baseline)
    return errors


def compare_with_ancestor(first: Trajectory, ancestor: Ancestor, allowance: Allowance) -> tuple[TensorError, ...]:
    """Everything against a validated ancestor, each error naming it."""
    # both may be off by what the tier allows, in opposite directions
    twice = msgspec.structs.replace(allowance, rtol=2 * allowance.rtol, atol=2 * allowance.atol)
    against = f"against {ancestor.variant}"
    return tuple(
        msgspec.structs.replace(error, message=f"{against}: {error.message}" if error.message else against)
        for error in compare_with_reference(first, ancestor.results, None, twice, {})
    )


def _beyond_the_sample(items: torch.Tensor | None, ancestor: Ancestor | None) -> tuple[Guard, ...]:
    if items is None or ancestor is not None:
        return ()
    return (
        skipped("beyond-the-sample", f"only {len(items)} items are held against the reference: no validated ancestor"),
    )


def _closed(placed: Any) -> Any:
    raise AssertionError("the program was closed")
