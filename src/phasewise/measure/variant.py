"""The measure stage: every case of one variant, beside its parent and the baseline."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from phasewise.environment import count_cores
from phasewise.judge.case import Judge, JudgeFailed
from phasewise.measure.arms import (
    Chosen,
    Gates,
    Measured,
    Plans,
    choose_arms,
    fit_at_once,
    refuse,
    too_slow_to_repeat,
)
from phasewise.measure.entrant import Entrant
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.processes import Processes, start_ahead
from phasewise.measure.progress import Progress, to_stderr
from phasewise.measure.sampler import sample_case, was_killed
from phasewise.measure.sampling import Tools
from phasewise.measure.scale import measure_scale
from phasewise.model.freshness import Closure
from phasewise.records.base import find_case
from phasewise.records.measure import Arm, CaseMeasurement, Measurement
from phasewise.records.plan import Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import digest
from phasewise.workers.failure import TRIES

# processes that import before anything is timed
AHEAD_A_CORE = 2


def measure_variant(
    plan: VariantPlan,
    plans: Plans,
    validations: Gates,
    measured: Measured,
    *,
    root: Path,
    machine: str,
    commit: str,
    closure: Closure | None = None,
    gpu_memory_bytes: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Measure `plan` in all its cases; what can't be measured is on record with the reason.

    `plans` and `validations` hold those of the variant and of all its ancestors, `measured` what is known of these. `machine`
    is the identity of this machine, `closure` is of the workload's files as they stood when the stage began. Where `gpu_memory_bytes` hold them, the processes of all sets of a comparison build at once.
    """
    progress = to_stderr() if progress is None else progress
    # a gate speaks of the plan that it was made from, and of no other
    validations = {
        name: gate for name, gate in validations.items() if name not in plans or gate.plan in ("", digest(plans[name]))
    }
    sets = plan.budget.min_sets
    refused = {case.case: refuse(plan, case, validations, measured) for case in plan.cases}
    arms = {
        case.case: choose_arms(plan, case, plans, validations, measured)
        for case in plan.cases
        # what is measured at smaller shapes has no arms
        if refused[case.case] is None and not case.baseline_at
    }
    with tempfile.TemporaryDirectory(prefix="phasewise-caches-") as caches, ExitStack() as stack:

        def plan_case(case: PlannedCase, number: int) -> tuple[Judge, Processes]:
            chosen = arms[case.case]
            judge = Judge(plan, case.case, root, {arm.arm: arm.plan.ranks for arm in chosen})
            stack.callback(judge.close)
            # each try compiles into empty caches
            folder = Path(caches) / f"{case.case}-{number}"
            entrants = [make_entrant(arm, case, judge, budget_from=plan, caches=folder) for arm in chosen]
            return judge, Processes({entrant.arm: entrant for entrant in entrants})

        first = {case.case: plan_case(case, 0) for case in plan.cases if case.case in arms}
        comparisons = [processes for _, processes in first.values()]
        stack.enter_context(start_ahead(comparisons, sets, AHEAD_A_CORE * count_cores()))

        def measure(case: PlannedCase, number: int) -> CaseMeasurement:
            judge: Judge | None = None
            processes = Processes({})
            if case.case in arms:
                judge, processes = plan_case(case, number) if number else first[case.case]
            try:
                if judge is not None:
                    judge.open(_find_baseline_errors(case, plans, validations))
                return _measure_case(
                    plan,
                    case,
                    refused[case.case],
                    processes,
                    judge,
                    root,
                    progress,
                    ahead=fit_at_once(arms.get(case.case, ()), case, validations, sets, gpu_memory_bytes),
                    ends_if_killed=number + 1 < TRIES,
                )
            except JudgeFailed as died:
                return CaseMeasurement(case=case.case, arms=(), skipped=died.failure)
            finally:
                if judge is not None:
                    judge.close()

        cases = []
        for case in plan.cases:
            for number in range(TRIES):
                found = measure(case, number)
                if not was_killed(found):
                    break
            cases.append(found)
    return Measurement(
        workload=plan.workload,
        run=plan.run,
        variant=plan.variant,
        plan=digest(plan),
        machine=machine,
        commit=commit,
        loaded=_stamp(cases, closure),
        cases=tuple(_forget_files(case) for case in cases),
    )


def _find_baseline_errors(case: PlannedCase, plans: Plans, gates: Gates) -> CaseValidation | None:
    baseline = next((name for name in case.ancestors if name in plans and plans[name].kind is Kind.BASELINE), None)
    return None if baseline is None else find_case(gates.get(baseline), case.case)


def _stamp(cases: Sequence[CaseMeasurement], closure: Closure | None) -> dict[str, str] | None:
    """The files that the variant's processes loaded, with hashes; None where one could not tell."""
    own = [arm for case in cases for arm in case.arms if arm.arm == "variant"]
    if closure is None or not all(arm.loaded for arm in own):
        return None
    return closure.stamp(name for arm in own for name in arm.loaded)


def _forget_files(case: CaseMeasurement) -> CaseMeasurement:
    return msgspec.structs.replace(case, arms=tuple(msgspec.structs.replace(arm, loaded=()) for arm in case.arms))


def _measure_case(
    plan: VariantPlan,
    case: PlannedCase,
    refused: Failure | None,
    processes: Processes,
    judge: Judge | None,
    root: Path,
    progress: Progress,
    *,
    ahead: bool,
    ends_if_killed: bool,
) -> CaseMeasurement:
    if refused is not None:
        return CaseMeasurement(case=case.case, arms=(), skipped=refused)
    tools = Tools(
        watch=watch_machine(plan.device),
        progress=progress,
        # the same plan gives the same order of rounds
        seed=zlib.crc32(f"{plan.seed} {plan.variant} {case.case}".encode()),
    )
    if plan.kind is Kind.BASELINE and case.baseline_at:
        return measure_scale(plan, case, root, tools)
    if case.baseline_at:
        smaller = "the baseline is measured at smaller shapes only; an A/A control would take too long"
        return CaseMeasurement(case=case.case, arms=(), skipped=Failure(reason=Reason.OVER_BUDGET, message=smaller))
    pairs = [("parent", "variant")] if "parent" in processes.entrants else []
    found = sample_case(
        case.case, processes, pairs, plan.budget, tools, ahead=ahead, judge=judge, ends_if_killed=ends_if_killed
    )
    if plan.kind is Kind.CONTROL and any(_is_spared(arm, found) for arm in found.arms):
        return CaseMeasurement(case=case.case, arms=(), seconds=found.seconds, skipped=too_slow_to_repeat(plan))
    return found


def make_entrant(chosen: Chosen, case: PlannedCase, judge: Judge, *, budget_from: VariantPlan, caches: Path) -> Entrant:
    """How to start one arm on the judge's batches; its worker obeys the time limit of the variant that is measured.

    What is measured compiles once into the empty folder `caches`, as on a user's first run; after that all compile
    caches are shared and warm.
    """
    control = budget_from.kind is Kind.CONTROL
    plan = msgspec.structs.replace(chosen.plan, budget=budget_from.budget)
    planned = plan.case(case.case)
    launch = judge.launch(chosen.arm, plan)
    fresh = chosen.arm == "variant" and not control
    first = replace(launch, environment={**launch.environment, **empty_caches(caches)})
    return Entrant(
        arm=chosen.arm,
        variant=plan.variant,
        launches=(first, launch) if fresh else (launch,),
        fresh_caches=fresh,
        switches=planned.switches or plan.switches,
        ranks=plan.ranks,
        cold=planned.cache == "cold",
        # both arms of a control are slow together, and then it is left out
        spare_if_slow=chosen.spare_if_slow or control,
        singles=fresh,
        energy=chosen.arm in ("parent", "variant") and not control and plan.device != "cpu",
    )


def empty_caches(folder: Path) -> dict[str, str]:
    """Where torch.compile and Triton keep what they compiled, in `folder`."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}


def _is_spared(arm: Arm, found: CaseMeasurement) -> bool:
    """Whether the arm was left out for being slow, and not because the other arm failed."""
    if any(other.failure is not None for other in found.arms):
        return False
    took_part = any(sample.arm == arm.arm for taken in found.rounds for sample in taken.samples)
    return not took_part and bool(arm.first_step_s)
