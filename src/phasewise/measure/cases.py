"""Cases that are measured: all arms are started ahead, judged while they are timed, and made again where one was killed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from phasewise.environment import count_cores
from phasewise.judge.case import Judge, JudgeFailed
from phasewise.measure.arms import Chosen, Gates, Plans
from phasewise.measure.entrant import Entrant
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.processes import Processes, start_ahead
from phasewise.measure.progress import Progress
from phasewise.measure.sampler import Pair, sample_case, was_killed
from phasewise.measure.sampling import Tools
from phasewise.records.base import find_case
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation
from phasewise.stats import StopRules, count_sure_sets
from phasewise.workers.failure import TRIES
from phasewise.workers.scratch import make_scratch

# part of a GPU's memory that all processes which are open at once may take
AT_ONCE = 0.5
# processes a core that import before anything is timed
AHEAD_A_CORE = 2


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One comparison to be made."""

    # part of the seed of its order of rounds: the same plan gives the same order
    name: str
    # the variant that the judge's reference is for
    plan: VariantPlan
    case: PlannedCase
    arms: tuple[Chosen, ...]
    # (slower, faster): whose ratios are to be known
    pairs: tuple[Pair, ...]
    budget: Budget
    stop: StopRules


def measure_cases(
    wanted: Sequence[Wanted], plans: Plans, gates: Gates, *, root: Path, progress: Progress, gpu_memory_bytes: int
) -> dict[str, CaseMeasurement]:
    """Measure each comparison; results by case. `plans` and `gates` are those of the arms and of the baseline.

    The processes of all sets of a comparison build at once if they fit into `gpu_memory_bytes`.
    """
    with make_scratch("caches") as caches, ExitStack() as stack:

        def plan_case(one: Wanted, number: int) -> tuple[Judge, Processes]:
            judge = Judge(one.plan, one.case.case, root, {arm.arm: arm.plan.ranks for arm in one.arms})
            stack.callback(judge.close)
            # each try compiles into empty caches
            folder = caches / f"{one.case.case}-{number}"
            arms = {
                arm.arm: make_entrant(arm, one, judge, find_gate(arm, one, gates), caches=folder) for arm in one.arms
            }
            return judge, Processes(arms)

        first = {one.case.case: plan_case(one, 0) for one in wanted}
        comparisons = [processes for _, processes in first.values()]
        fitting = {one.case.case: fit_at_once(one, gates, gpu_memory_bytes) for one in wanted}
        sets = max((_count_first_sets(one, is_ahead=fitting[one.case.case]) for one in wanted), default=0)
        # judges get ready side by side, while processes import
        pool = stack.enter_context(ThreadPoolExecutor(max(1, len(wanted))))
        ready = {
            one.case.case: pool.submit(first[one.case.case][0].open, _find_baseline_errors(one.case, plans, gates))
            for one in wanted
        }
        stack.enter_context(start_ahead(comparisons, sets, AHEAD_A_CORE * count_cores()))
        # nothing is timed before
        wait(ready.values())

        def measure(one: Wanted, number: int) -> CaseMeasurement:
            case = one.case.case
            judge, processes = plan_case(one, number) if number else first[case]
            try:
                if number:
                    judge.open(_find_baseline_errors(one.case, plans, gates))
                else:
                    ready[case].result()
                return sample_case(
                    case,
                    processes,
                    one.pairs,
                    one.budget,
                    Tools(
                        watch=watch_machine(one.plan.device),
                        progress=progress,
                        seed=zlib.crc32(f"{one.plan.seed} {one.name} {case}".encode()),
                    ),
                    stop=one.stop,
                    ahead=fitting[case],
                    judge=judge,
                    ends_if_killed=number + 1 < TRIES,
                )
            except JudgeFailed as died:
                return CaseMeasurement(case=case, arms=(), skipped=died.failure)
            finally:
                judge.close()

        found = {}
        for one in wanted:
            for number in range(TRIES):
                found[one.case.case] = measure(one, number)
                if not was_killed(found[one.case.case]):
                    break
        return found


def fit_at_once(wanted: Wanted, gates: Gates, gpu_memory_bytes: int) -> bool:
    """Whether the processes of all sets fit on the GPU together, each taking its gate's peak; False if a peak is unknown."""
    peaks = []
    for arm in wanted.arms:
        gate = find_gate(arm, wanted, gates)
        if gate is None or gate.peak_memory_bytes is None:
            return False
        peaks.append(gate.peak_memory_bytes)
    return wanted.stop.least_sets * sum(peaks) < AT_ONCE * gpu_memory_bytes


def find_gate(chosen: Chosen, wanted: Wanted, gates: Gates) -> CaseValidation | None:
    """What the gate of an arm has told."""
    return find_case(gates.get(chosen.plan.variant), wanted.case.case)


def forget_files(case: CaseMeasurement) -> CaseMeasurement:
    """Without the names of the files that its arms loaded: they stand beside the cases, with their hashes."""
    return msgspec.structs.replace(case, arms=tuple(msgspec.structs.replace(arm, loaded=()) for arm in case.arms))


def make_entrant(chosen: Chosen, wanted: Wanted, judge: Judge, gate: CaseValidation | None, *, caches: Path) -> Entrant:
    """How to start one arm on the judge's batches, under the time limit of the comparison's budget.

    The first process of an arm whose start goes on record compiles into the empty folder `caches`, as on a user's first
    run; all others share warm caches.
    """
    plan = msgspec.structs.replace(chosen.plan, budget=wanted.budget)
    planned = plan.case(wanted.case.case)
    launch = judge.launch(chosen.arm, plan)
    launch = replace(launch, tooled=launch.fresh and gate is not None and gate.has_compiler)
    first = replace(launch, environment={**launch.environment, **empty_caches(caches)})
    sets = range(wanted.stop.most_sets)
    return Entrant(
        arm=chosen.arm,
        variant=plan.variant,
        launches=[
            replace(launch if number or not chosen.starts_cold else first, process_set=number) for number in sets
        ],
        fresh_caches=chosen.starts_cold,
        switches=planned.switches or plan.switches,
        ranks=plan.ranks,
        device=plan.device,
        cold=planned.cache == "cold",
        once_if_slow=chosen.once_if_slow,
        singles=chosen.is_told,
        energy=chosen.is_told and plan.device != "cpu",
    )


def empty_caches(folder: Path) -> dict[str, str]:
    """Where torch.compile and Triton keep what they compiled, in `folder`."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}


def _count_first_sets(wanted: Wanted, *, is_ahead: bool) -> int:
    """Sets whose processes import before anything is timed: those that build at once, or else those that are sure to come."""
    return wanted.stop.least_sets if is_ahead else count_sure_sets(wanted.stop, begun=0, nearest=math.inf)


def _find_baseline_errors(case: PlannedCase, plans: Plans, gates: Gates) -> CaseValidation | None:
    baseline = next((name for name in case.ancestors if name in plans and plans[name].kind is Kind.BASELINE), None)
    return None if baseline is None else find_case(gates.get(baseline), case.case)
