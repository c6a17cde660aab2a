"""The control of a case: the end of its stack beside itself, which shows what ratio this machine finds where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median

from phasewise.measure.arms import Chosen, Gates, Plans, keep_current
from phasewise.measure.cases import Wanted, forget_files, measure_cases
from phasewise.measure.headline import Measured, find_end
from phasewise.measure.progress import Progress, to_stderr
from phasewise.model.arms import cold_start, find_arm
from phasewise.model.headline import Cast
from phasewise.model.ratios import step_times
from phasewise.records.base import find_case
from phasewise.records.measure import CaseMeasurement, ControlMeasurement
from phasewise.records.plan import Budget, VariantPlan
from phasewise.records.verdict import Failure, Reason
from phasewise.stats import CONTROL_SHARE, StopRules
from phasewise.store import digest


def measure_control(
    cast: Cast,
    case: str,
    plans: Plans,
    validations: Gates,
    measured: Measured,
    *,
    root: Path,
    machine: str,
    commit: str,
    others_s: float,
    gpu_memory_bytes: int = 0,
    progress: Progress | None = None,
) -> ControlMeasurement:
    """Time the end of the stack beside itself, in as many sets as a tenth of `others_s` pays for: seconds that the stack and the headline took.

    `plans` and `validations` hold those of the stack, `measured` its own measurements.
    """
    gates = keep_current(validations, plans)
    end = find_end(cast, case, plans, gates, measured)
    own = None if end is None else find_case(measured.get(end.variant), case)
    refused = _refuse(end, own)
    if end is None or own is None or refused is not None:
        found = CaseMeasurement(case=case, arms=(), skipped=refused)
    else:
        rounds = max(2, end.budget.min_rounds)
        sets = count_sets(own, others_s, end.budget)
        wanted = Wanted(
            name="control", plan=end, case=end.case(case), budget=end.budget,
            arms=(Chosen(arm="parent", plan=end), Chosen(arm="variant", plan=end)), pairs=(("parent", "variant"),),
            stop=StopRules(least_rounds=rounds, most_rounds=rounds, least_sets=sets, most_sets=sets),
        )  # fmt: skip
        found = measure_cases(
            [wanted], plans, gates, root=root, gpu_memory_bytes=gpu_memory_bytes, progress=progress or to_stderr()
        )[case]
    first = plans[cast.stack[0]]
    return ControlMeasurement(
        workload=first.workload, run=first.run, case=case, plans={first.variant: digest(first)},
        machine=machine, commit=commit, measured=forget_files(found),
    )  # fmt: skip


def count_sets(own: CaseMeasurement, others_s: float, budget: Budget) -> int:
    """Sets of processes: by what one took in the variant's own measurement, whose start with empty caches a control does not make; one at
    least, which says little but something.
    """
    sets = len({taken.process_set for taken in own.rounds})
    took_s = (own.seconds - (cold_start(find_arm(own, "variant")) or 0.0)) / sets
    return max(1, min(budget.min_sets, int(CONTROL_SHARE * others_s / took_s) if took_s > 0.0 else budget.min_sets))


def sum_seconds(found: Iterable[CaseMeasurement | None]) -> float:
    """What these comparisons took."""
    return sum(one.seconds for one in found if one is not None)


def _refuse(end: VariantPlan | None, own: CaseMeasurement | None) -> Failure | None:
    if end is None or own is None or not (times := step_times(own, "variant")):
        return Failure(reason=Reason.NOT_MEASURED, message="no variant of the stack was timed")
    if median(time for taken in times for time in taken) > end.budget.slow_step_s:
        message = f"a step of {end.variant} takes over {end.budget.slow_step_s:g} s; an A/A control would take too long"
        return Failure(reason=Reason.OVER_BUDGET, message=message)
    return None
