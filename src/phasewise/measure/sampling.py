"""The state of one comparison, and what is done to arms that are open: timed, asked for the rest, closed."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from phasewise.measure.driver import ArmDriver, Entrant, Warmed
from phasewise.measure.log import ArmLog
from phasewise.measure.neighbours import Look
from phasewise.measure.processes import Processes
from phasewise.measure.progress import Progress, Silent
from phasewise.measure.warmup import settling_steps
from phasewise.records.measure import CaseMeasurement, Round, Sample, Window
from phasewise.records.plan import Budget
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.failure import ProcessFailed, is_kill

# single steps take about this long together: 200 of them give a 99th percentile two samples beyond it
SINGLES_S = 2.0
SINGLES = (5, 200)
PLACINGS = 10
# an energy window is planned a little long, since the step time is an estimate
WINDOW_MARGIN = 1.1


class Watcher(Protocol):
    """Sees who else uses the machine."""

    def look(self, workers: Iterable[int]) -> Look: ...


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What touches the world; tests bring their own."""

    watch: Watcher
    now: Callable[[], float] = time.monotonic
    progress: Progress = field(default_factory=Silent)
    seed: int = 0


class NotTogether(Exception):
    """The arms do not fit in memory at the same time."""


@dataclass
class Sampling:
    """One comparison under way."""

    case: str
    logs: dict[str, ArmLog]
    budget: Budget
    tools: Tools
    rng: random.Random
    together: bool
    # the processes of all sets fit on the device at once
    ahead: bool = False
    # over as soon as a process was killed from outside: it will be made again
    ends_if_killed: bool = False
    rounds: list[Round] = field(default_factory=list)
    processes: Processes = field(default_factory=Processes)
    # of the newest process set; -1 before the first
    process_set: int = -1
    order: list[str] = field(default_factory=list)
    # since when the budget's seconds run
    began: float = 0.0
    # what it takes until the next set can be timed
    seconds_a_set: float = 0.0
    # the longest opening of a set so far, and the warm-ups in the newest
    opening_s: float = 0.0
    warming_s: float = 0.0

    @property
    def drivers(self) -> dict[str, ArmDriver]:
        """The processes of this set."""
        return self.processes.running

    @property
    def seconds_left(self) -> float:
        """Of the budget."""
        return self.budget.seconds - (self.tools.now() - self.began)

    @property
    def taking_part(self) -> list[str]:
        return [arm for arm, log in self.logs.items() if log.takes_part]

    @property
    def warmed(self) -> list[Warmed]:
        """Those that take part, as they were found warm."""
        return [log.warmed for log in self.logs.values() if log.takes_part and log.warmed is not None]

    @property
    def was_killed(self) -> bool:
        """Whether a process was killed from outside."""
        return any(map(is_kill, (log.failure for log in self.logs.values())))

    def snapshot(self, stopped: str = "") -> CaseMeasurement:
        """The comparison as far as it has come."""
        return CaseMeasurement(
            case=self.case,
            arms=tuple(log.record() for log in self.logs.values()),
            rounds=tuple(self.rounds),
            stopped=stopped,
        )

    def start(self, arm: str, sets: int = 1) -> None:
        """Begin the next process of `arm`, and with it those of the sets to come: `sets` in all."""
        self.processes.start(arm, self.logs[arm].entrant, sets)

    def fail(self, arm: str, failure: Failure) -> None:
        """Take `arm` out for good; the others go on."""
        self.logs[arm].failure = failure
        self.processes.leave([arm])


def begin_sampling(
    case: str,
    entrants: Sequence[Entrant],
    budget: Budget,
    tools: Tools,
    *,
    ahead: bool = False,
    ends_if_killed: bool = False,
) -> Sampling:
    """Nothing is started yet. Two process groups never live at once."""
    groups = sum(entrant.ranks > 1 for entrant in entrants)
    return Sampling(
        case=case,
        logs={entrant.arm: ArmLog(entrant) for entrant in entrants},
        budget=budget,
        tools=tools,
        rng=random.Random(tools.seed),
        together=groups < 2,
        ahead=ahead and not groups,
        ends_if_killed=ends_if_killed,
    )


def run_round(sampling: Sampling) -> None:
    """One block of every arm in shuffled order, every second round in the reverse of the one before.

    Raises:
        NotTogether: an arm ran out of memory beside others; all are closed, and the round is lost.
    """
    order = [arm for arm in reversed(sampling.order) if arm in sampling.drivers]
    if len(sampling.rounds) % 2 == 0 or set(order) != set(sampling.drivers):
        order = list(sampling.drivers)
        sampling.rng.shuffle(order)
    sampling.order = order
    samples = [sample for arm in order if (sample := run_block(sampling, arm)) is not None]
    if samples:
        add_round(sampling, samples)


def run_block(sampling: Sampling, arm: str) -> Sample | None:
    """One block of one arm; None if it failed, which takes it out. Raises NotTogether as `run_round` does."""
    warmed = sampling.logs[arm].warmed
    assert warmed is not None
    try:
        block = sampling.drivers[arm].block(warmed.block_steps, settling_steps(warmed.block_steps))
    except ProcessFailed as died:
        take_failure(sampling, arm, died.failure, with_others=sampling.ahead or len(sampling.drivers) > 1)
        return None
    return Sample(arm=arm, **block)


def add_round(sampling: Sampling, samples: Sequence[Sample]) -> None:
    """Keep a round, with who else was there."""
    look = sampling.tools.watch.look(sampling.processes.pids)
    sampling.rounds.append(
        Round(
            process_set=sampling.process_set,
            samples=tuple(samples),
            neighbour_load=look.load,
            neighbours=look.processes,
        )
    )


def ask_the_rest(sampling: Sampling, arm: str) -> None:
    """After the rounds: single steps, placing and energy in the first set, outputs and peak memory in every set."""
    log, driver, budget = sampling.logs[arm], sampling.drivers[arm], sampling.budget
    warmed = log.warmed
    assert warmed is not None
    slow = warmed.step_s > budget.slow_step_s
    try:
        if not log.step_s and log.entrant.singles and not slow:
            count = max(SINGLES[0], min(SINGLES[1], int(SINGLES_S / warmed.step_s)))
            log.step_s += driver.singles(count)
            log.place_s += driver.placing(PLACINGS)
        if not log.energy and log.entrant.energy and budget.energy_window_s > 0:
            _measure_energy(log, driver, budget.energy_window_s, _block_step_s(sampling, arm))
        if not slow:
            log.note_held(driver.check())
        log.note_memory(*driver.memory())
        log.files |= driver.files()
    except ProcessFailed as died:
        sampling.fail(arm, died.failure)


def close_set(sampling: Sampling) -> None:
    """Ask every arm for the rest, then end the processes."""
    for arm in list(sampling.drivers):
        ask_the_rest(sampling, arm)
    sampling.processes.close()


def _block_step_s(sampling: Sampling, arm: str) -> float:
    """Seconds of a step in the fastest block: steps of a window don't wait for each other either, as single ones do."""
    warmed = sampling.logs[arm].warmed
    assert warmed is not None
    blocks = (
        sample.wall_s / sample.steps for taken in sampling.rounds for sample in taken.samples if sample.arm == arm
    )
    return min(blocks, default=warmed.step_s)


def _measure_energy(log: ArmLog, driver: ArmDriver, window_s: float, step_s: float) -> None:
    """One window that is long enough; a second, longer try if the first was too short."""
    steps = max(1, math.ceil(WINDOW_MARGIN * window_s / step_s))
    for _ in range(2):
        found = driver.energy(steps)
        if found is None:
            return
        seconds, joules = found
        if seconds >= window_s:
            log.energy.append(Window(steps=steps, seconds=seconds, joules=joules))
            return
        steps = math.ceil(WINDOW_MARGIN * steps * window_s / seconds)


def take_failure(sampling: Sampling, arm: str, failure: Failure, *, with_others: bool) -> None:
    """Take `arm` out; raises NotTogether where it may only have lacked memory for others."""
    # beside others it may only have been too tight; alone it is the arm's own failure
    if failure.reason is Reason.OUT_OF_MEMORY and with_others and sampling.together:
        sampling.processes.leave(sampling.logs)
        raise NotTogether
    sampling.fail(arm, failure)
