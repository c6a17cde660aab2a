"""What this machine can resolve: its A/A floor, whether it finds a planted slow-down, and what it lacks."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phasewise.measure.neighbours import Neighbours, watch_machine
from phasewise.measure.pool import Pool, draw_pair, fill_pool
from phasewise.measure.progress import Progress, Silent, to_stderr
from phasewise.measure.sampler import sample_case
from phasewise.measure.sampling import Tools, Watcher
from phasewise.measure.standard import UNITS
from phasewise.model.ratios import cycle_log_ratios, dropped_share, estimate_speedup, stop_rules
from phasewise.records.base import Interval
from phasewise.records.errors import UserError
from phasewise.records.machine import Doctor, Machine
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.stats import UNMEASURED_FLOOR, Conditions, RatioEstimate, aa_floor, decide_status, estimate_ratio
from phasewise.workers.arm import ArmProcesses, launch_function
from phasewise.workers.failure import ProcessFailed

# processes of each program, and sets of a comparison: two cores have no room for more
POOL = {"cuda": 12, "cpu": 6}
BUDGETS = {
    "cuda": Budget(min_rounds=10, max_rounds=10, min_sets=3, max_sets=6),
    "cpu": Budget(min_rounds=10, max_rounds=10, min_sets=3, max_sets=3),
}
# what a data-centre GPU is expected to resolve
PLANTED_ON_GPU = 0.02
# elsewhere: this many times the floor, since an effect of the size of the floor is found every second time only
FLOORS = 3.0
# of all comparisons
SECONDS = 360.0
# says whether only root may read hardware counters
DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """One comparison of the doctor."""

    measurement: CaseMeasurement
    ratio: RatioEstimate
    # the same in clock cycles; None where the clock can't be read
    cycles: RatioEstimate | None


@dataclass(frozen=True)
class PoolWatch:
    """A watch to which the processes that wait in the pools are ours too."""

    watch: Watcher
    pools: Sequence[Pool]

    def look(self, workers: Iterable[int]) -> Neighbours:
        waiting = {pid for pool in self.pools for driver in pool.drivers for pid in driver.pids}
        return self.watch.look(waiting.union(workers))


def examine(
    machine: Machine,
    *,
    repeats: int = 5,
    planted: float | None = None,
) -> Doctor:
    """Compare a standard program with itself `repeats` times, then with a slower copy of itself as often.

    Comparisons draw their process pairs anew from a pool; the slower copy does `planted` more work, by default 2 % on a GPU
    and three floors on a CPU. Fewer are made where SECONDS do not suffice. An alarm is an A/A comparison that the
    harness would call faster or slower, with the floor of all the others.

    Raises:
        UserError: the standard program does not run here.
    """

    def start(units: int) -> ArmProcesses:
        launch = launch_function(
            "phasewise.measure.standard:step",
            setup="phasewise.measure.standard:make",
            arguments={"units": units},
            device=machine.kind,
        )
        return ArmProcesses(launch)

    try:
        return examine_with(
            start,
            machine,
            repeats=repeats,
            planted=planted,
            seconds=SECONDS,
            watch=watch_machine(machine.device),
            progress=to_stderr(),
        )
    except ProcessFailed as died:
        raise UserError(f"doctor: the standard program does not run here: {died.failure.message}") from died


def examine_with(
    start: Callable[[int], ArmProcesses],
    machine: Machine,
    *,
    repeats: int,
    planted: float | None,
    seconds: float,
    watch: Watcher,
    progress: Progress,
    now: Callable[[], float] = time.monotonic,
) -> Doctor:
    """`examine` with processes from `start(units)`, and a clock."""
    budget, rng, began = BUDGETS[machine.kind], random.Random(0), now()
    pools: list[Pool] = []

    def repeat(title: str, parent: Pool, variant: Pool, until: float) -> list[Repeat]:
        found: list[Repeat] = []
        while len(found) < repeats and now() - began < until:
            progress.update(f"{title} {len(found) + 1} of {repeats}, {seconds - (now() - began):.0f} s left")
            tools = Tools(watch=PoolWatch(watch, pools), now=now, progress=Silent(), seed=len(found))
            found.append(_compare(parent, variant, budget, rng, tools))
        return found

    try:
        progress.update("starting the standard program")
        pools.append(fill_pool(lambda: start(UNITS), POOL[machine.kind], machine.kind, budget, now))
        controls = repeat("A/A comparison", pools[0], pools[0], seconds / 2)
        limit = aa_floor([control.ratio for control in controls])
        # the time was over before a second set
        floor = UNMEASURED_FLOOR if limit is None else limit
        units = _planted_units(planted, floor, machine.kind)
        progress.update(f"starting it with {units / UNITS - 1:.0%} more work")
        steps = pools[0].warmed.block_steps
        pools.append(fill_pool(lambda: start(units), POOL[machine.kind], machine.kind, budget, now, block_steps=steps))
        slowed = repeat("planted slow-down", pools[0], pools[1], seconds)
    finally:
        for pool in pools:
            pool.close()
    return Doctor(
        machine=machine,
        aa=_spread(controls) if controls else None,
        floor=math.expm1(floor),
        planted_slowdown=(units - UNITS) / UNITS,
        planted_found=sum(_status(one, floor) == "SLOWER" for one in slowed),
        planted_repeats=len(slowed),
        notes=(
            _count_alarms(controls),
            *_describe_rounds([*controls, *slowed]),
            *_describe_tools(machine),
        ),
    )


def describe_doctor(found: Doctor) -> str:
    """The examination as lines of text."""
    lines = [f"{found.machine.name}, {found.machine.device}"]
    if found.aa is not None and found.floor is not None:
        lines.append(
            f"a program beside itself: {found.aa.estimate:.4f} times as fast [{found.aa.low:.4f}, {found.aa.high:.4f}]"
        )
        lines.append(f"floor: a claim must exceed {found.floor:.2%}")
    lines.append(
        f"a planted slow-down of {found.planted_slowdown:.1%} was found "
        f"in {found.planted_found} of {found.planted_repeats} comparisons"
    )
    return "\n".join([*lines, *found.notes])


def _compare(parent: Pool, variant: Pool, budget: Budget, rng: random.Random, tools: Tools) -> Repeat:
    processes = draw_pair(parent, variant, rng)
    sets = min(map(len, processes.waiting.values()))
    assert sets >= budget.max_sets, "the pool is large enough for every set"
    measured = sample_case("doctor", processes, [("parent", "variant")], budget, tools)
    for arm in measured.arms:
        if arm.failure is not None:
            raise ProcessFailed(arm.failure)
    ratio = estimate_speedup(measured, budget)
    assert ratio is not None, "no arm failed, so there are rounds of both"
    cycles = cycle_log_ratios(measured, "parent", "variant")
    return Repeat(
        measurement=measured,
        ratio=ratio,
        cycles=estimate_ratio(cycles, rules=stop_rules(budget)) if cycles else None,
    )


def _planted_units(planted: float | None, floor: float, kind: str) -> int:
    if planted is None:
        planted = PLANTED_ON_GPU if kind == "cuda" else FLOORS * math.expm1(floor)
    return UNITS + max(1, round(UNITS * planted))


def _status(one: Repeat, floor: float | None) -> str:
    conditions = Conditions(dropped_share=dropped_share(one.measurement))
    return decide_status(one.ratio, aa_floor=floor, cycles=one.cycles, conditions=conditions).status


def _count_alarms(controls: Sequence[Repeat]) -> str:
    alarms = 0
    for index, control in enumerate(controls):
        others = [other.ratio for other in (*controls[:index], *controls[index + 1 :])]
        alarms += _status(control, aa_floor(others) if others else 0.0) in ("FASTER", "SLOWER")
    return f"A/A: {alarms} false alarms in {len(controls)} comparisons"


def _spread(controls: Sequence[Repeat]) -> Interval:
    """The middle and the ends of what a program was measured to be beside itself."""
    ratios = sorted(control.ratio.estimate for control in controls)
    return Interval(estimate=ratios[len(ratios) // 2], low=ratios[0], high=ratios[-1])


def _describe_rounds(repeats: Sequence[Repeat]) -> list[str]:
    """What disturbed the rounds."""
    rounds = [taken for one in repeats for taken in one.measurement.rounds]
    notes = []
    dropped = sum(bool(taken.dropped) for taken in rounds)
    if dropped:
        notes.append(f"clocks: {dropped} of {len(rounds)} rounds dropped; let the GPU cool, or raise its power limit")
    clocks = [sample.sm_clock_mhz for taken in rounds for sample in taken.samples if sample.sm_clock_mhz is not None]
    if clocks:
        notes.append(f"clocks: between {min(clocks):.0f} and {max(clocks):.0f} MHz under load")
    if any(taken.neighbours for taken in rounds):
        notes.append("neighbours: other processes are on the GPU; stop them, or take the machine alone")
    loads = sorted(taken.neighbour_load for taken in rounds if taken.neighbour_load is not None)
    if loads:
        notes.append(f"neighbours: other processes load each core by {loads[len(loads) // 2]:.0%} (median)")
    return notes


def _describe_tools(machine: Machine) -> list[str]:
    """Tools that are missing or not allowed, with the cure."""
    notes = [f"{tool.name}: {tool.reason}; {tool.cure}" for tool in machine.tools if not tool.available]
    if DRIVER_PARAMETERS.is_file() and "RmProfilingAdminOnly: 1" in DRIVER_PARAMETERS.read_text():
        notes.append(
            "ncu: hardware counters are for root only; set the driver option NVreg_RestrictProfilingToAdminUsers=0"
        )
    return notes
