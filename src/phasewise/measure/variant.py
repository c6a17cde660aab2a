"""The measure stage: every case of one variant, beside its parent."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from phasewise.measure.arms import Chosen, Gates, Plans, choose_arms, keep_current, refuse
from phasewise.measure.cases import Wanted, forget_files, measure_cases
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.progress import Progress, to_stderr
from phasewise.measure.sampling import Tools
from phasewise.measure.scale import measure_scale
from phasewise.model.freshness import Closure
from phasewise.model.ratios import stop_alone, stop_own, stop_rules
from phasewise.records.measure import CaseMeasurement, Measurement
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.store import digest


def measure_variant(
    plan: VariantPlan,
    plans: Plans,
    validations: Gates,
    *,
    root: Path,
    machine: str,
    commit: str,
    headlines: Collection[str] = (),
    closure: Closure | None = None,
    gpu_memory_bytes: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Measure `plan` in all its cases; what can't be measured is on record with the reason.

    `plans` and `validations` hold those of the variant and of all its ancestors. `machine` is the identity of this machine,
    `headlines` are the cases whose headline the variant's own rounds are, `closure` is of the workload's files as they stood when
    the stage began. The processes of all sets of a comparison build at once if they fit into `gpu_memory_bytes`.
    """
    progress = to_stderr() if progress is None else progress
    gates = keep_current(validations, plans)
    found: dict[str, CaseMeasurement] = {}
    wanted: list[Wanted] = []
    for case in plan.cases:
        refused = refuse(plan, case.case, gates)
        if refused is not None:
            found[case.case] = CaseMeasurement(case=case.case, arms=(), skipped=refused)
        elif not case.baseline_at:
            # one cold start a variant, since nothing may run beside it
            arms = choose_arms(plan, case, plans, gates, starts_cold=not wanted)
            wanted.append(_want(plan, case, arms, is_headline=case.case in headlines))
    found |= measure_cases(wanted, plans, gates, root=root, progress=progress, gpu_memory_bytes=gpu_memory_bytes)
    for case in plan.cases:
        if case.case not in found:
            tools = Tools(watch=watch_machine(plan.device), progress=progress)
            found[case.case] = measure_scale(plan, case, root, tools)
    cases = tuple(found[case.case] for case in plan.cases)
    loaded = [arm.loaded for case in cases for arm in case.arms if arm.arm == "variant"]
    return Measurement(
        workload=plan.workload,
        run=plan.run,
        variant=plan.variant,
        plan=digest(plan),
        machine=machine,
        commit=commit,
        loaded=None if closure is None else closure.stamp(loaded),
        cases=tuple(map(forget_files, cases)),
    )


def _want(plan: VariantPlan, case: PlannedCase, arms: tuple[Chosen, ...], *, is_headline: bool) -> Wanted:
    pairs = (("parent", "variant"),) if len(arms) > 1 else ()
    stop = stop_own(plan.budget) if is_headline else stop_rules(plan.budget)
    return Wanted(
        name=plan.variant,
        plan=plan,
        case=case,
        arms=arms,
        pairs=pairs,
        budget=plan.budget,
        stop=stop if pairs else stop_alone(plan.budget),
    )
