"""Validate one case of one variant: what its blocks gave, guards and checks, put together into one record. Imports no torch.

A block here is a block of the measurement: the same command of the same worker, whose last result is compared with the reference.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from phasewise.judge.case import TIMEOUTS, Judge, JudgeFailed
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import CaseValidation, CheckResult, Guard, Outcome, TensorError, skipped
from phasewise.validate.outcomes import conclude, failed_case
from phasewise.validate.suspect import suspect_weights
from phasewise.workers.arm import ArmProcesses, Launch
from phasewise.workers.enclosure import Enclosure
from phasewise.workers.failure import TRIES, ProcessFailed, is_kill

VARIANT, ANCESTOR = "variant", "ancestor"


def validate_case(
    plan: VariantPlan,
    case: str,
    root: Path,
    baseline: CaseValidation | None = None,
    ancestor: VariantPlan | None = None,
    clock: Callable[[], float] = time.perf_counter,
    enclosure: Enclosure | None = None,
) -> CaseValidation:
    """Judge `case` of variant `plan` in fresh processes; one that fails, dies or takes too long gives a record with the reason.

    `baseline` gives the baseline's own errors, None for the baseline itself. `ancestor`, a validated variant, stands in where the
    reference covers only a sample of items. `enclosure` is what the variant's processes may see and write.
    """

    for _ in range(TRIES):
        started = clock()
        try:
            found = _validate(plan, case, root, baseline, ancestor, enclosure)
        except (ProcessFailed, JudgeFailed) as died:
            found = failed_case(case, died.failure)
        if not is_kill(found.failure):
            break
    return msgspec.structs.replace(found, seconds=clock() - started)


def _validate(
    plan: VariantPlan,
    case: str,
    root: Path,
    baseline: CaseValidation | None,
    ancestor: VariantPlan | None,
    enclosure: Enclosure | None,
) -> CaseValidation:
    judge = Judge(plan, case, root, {VARIANT: plan.ranks, ANCESTOR: 1})
    try:
        launch = _prepare(judge.launch(VARIANT, uncap(plan)))
        # it imports while the judge gets ready
        arm = ArmProcesses(replace(launch, enclosure=enclosure))
        try:
            judge.open(baseline)
            if judge.skip:
                # nothing was refused: there is only nothing to compare it with, and it is timed all the same
                return CaseValidation(case=case, outcome=Outcome.SKIPPED, message=judge.skip)
            stand_in = ""
            if judge.items is not None and ancestor is not None:
                stand_in = _keep_stand_in(judge, ancestor)
            errors = follow(judge, VARIANT, arm, keep=VARIANT, kept=stand_in)
            told = arm.apply("phasewise.validate.child:guard_case", Told, root=str(root), ring=judge.list_slots())
            loaded = tuple(sorted(arm.files()))
            opened = arm.open()
            doubt = suspect_weights(errors, draws=opened["draws"], is_baseline=baseline is None)
        finally:
            arm.close()
        progress = judge.follow_progress(VARIANT)
    finally:
        judge.close()
    found = _put_together(case, judge, errors, progress, told, stand_in, loaded, doubt)
    return msgspec.structs.replace(found, has_compiler=opened["has_compiler"])


def follow(judge: Judge, name: str, arm: ArmProcesses, *, keep: str = "", kept: str = "") -> tuple[TensorError, ...]:
    """Open an arm and judge a block on each batch; of a program with state, blocks of one step, of two, and so on from the initial state."""
    is_stateful = arm.open(ring=judge.list_slots())["stateful"] or judge.is_stateful
    if is_stateful and keep:
        arm.settle(0)
        judge.keep_initial(name, arm, keep)
    errors: tuple[TensorError, ...] = ()
    for step in range(judge.steps):
        arm.block(step + 1 if is_stateful else 1, 0, 0 if is_stateful else step)
        last = is_stateful and step == judge.steps - 1
        errors += judge.check(name, arm, entry=step, step=step, state=last, keep=keep, kept=kept)
    return errors


def _keep_stand_in(judge: Judge, ancestor: VariantPlan) -> str:
    """Have the judge keep an ancestor's whole results; its name, or "" where it can't be run now."""
    arm = ArmProcesses(_prepare(judge.launch(ANCESTOR, ancestor)))
    try:
        follow(judge, ANCESTOR, arm, keep=ancestor.variant)
    except ProcessFailed:
        # the record then says that nothing beyond the sample was compared
        return ""
    finally:
        arm.close()
    return ancestor.variant


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank found of itself."""

    guards: tuple[Guard, ...]
    checks: tuple[CheckResult, ...]
    fallbacks: tuple[str, ...]
    peak_memory_bytes: int | None


def _put_together(
    case: str,
    judge: Judge,
    errors: tuple[TensorError, ...],
    progress: tuple[Guard, ...],
    told: list[Told],
    stand_in: str,
    loaded: tuple[str, ...],
    doubt: str,
) -> CaseValidation:
    # every rank has its say, and what the first says is shown where all agree
    shown = next((one for one in told if conclude((), one.guards, one.checks, ())[0] is Outcome.FAIL), told[0])
    guards, checks = shown.guards, shown.checks
    guards = (*progress, *guards)
    if judge.items is not None and not stand_in:
        guards += (
            skipped(
                "beyond-the-sample", f"only {judge.items} items are compared with the reference: no validated ancestor"
            ),
        )
    fallbacks = told[0].fallbacks
    outcome, message = conclude(errors, guards, checks, fallbacks)
    return CaseValidation(
        case=case,
        outcome=outcome,
        message=f"{message}; {doubt}" if message and doubt else message,
        against=stand_in or "reference",
        sampled_items=judge.items,
        errors=errors,
        guards=guards,
        checks=checks,
        fallbacks=fallbacks,
        peak_memory_bytes=told[0].peak_memory_bytes,
        loaded=loaded,
    )


def _prepare(launch: Launch) -> Launch:
    """Nothing is timed that counts, so its process may be forked; guards and checks take their time."""
    return replace(launch, fresh=False, timeout_s=TIMEOUTS * launch.timeout_s)


def uncap(plan: VariantPlan) -> VariantPlan:
    """On a CPU the copies of guards and the programs of checks live in the same memory, and the cap is not meant for them."""
    if plan.device != "cpu":
        return plan
    cases = tuple(msgspec.structs.replace(one, memory_limit_bytes=None) for one in plan.cases)
    return msgspec.structs.replace(plan, cases=cases)
