"""The state of one comparison."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from phasewise.judge.case import Judge
from phasewise.measure.log import ArmLog
from phasewise.measure.neighbours import Neighbours
from phasewise.measure.processes import Processes
from phasewise.measure.progress import Progress, Silent
from phasewise.records.measure import Arrival, CaseMeasurement, Inspection, Refresh, Round, ShortBlock
from phasewise.records.plan import Budget
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import ArmProcesses
from phasewise.workers.failure import is_kill
from phasewise.workers.warmup import Warmed

# an arm of a headline whose step takes longer is timed once a set
RARE_STEP_S = 1.0


class Watcher(Protocol):
    """Sees who else uses the machine."""

    def look(self, workers: Iterable[int]) -> Neighbours: ...


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What touches the world; tests bring their own."""

    watch: Watcher
    now: Callable[[], float] = time.monotonic
    progress: Progress = field(default_factory=Silent)
    seed: int = 0


class DoNotFit(Exception):
    """The arms do not fit in memory at the same time."""


@dataclass
class Sampling:
    """One comparison under way."""

    case: str
    logs: dict[str, ArmLog]
    budget: Budget
    tools: Tools
    rng: random.Random
    processes: Processes
    arms_fit: bool
    # the processes of all sets fit on the device at once
    ahead: bool = False
    # None: what is timed can't be judged here
    judge: Judge | None = None
    inspections: list[Inspection] = field(default_factory=list)
    refreshes: list[Refresh] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    short_blocks: list[ShortBlock] = field(default_factory=list)
    # it ends as soon as a process is killed from outside, since it will be made again
    ends_if_killed: bool = False
    rounds: list[Round] = field(default_factory=list)
    # of the newest process set; -1 before the first
    process_set: int = -1
    order: list[str] = field(default_factory=list)
    # since when the budget's seconds run
    began: float = 0.0
    # seconds until the next set can be timed
    seconds_a_set: float = 0.0
    # the longest opening of a set so far, and the warm-ups in the newest
    opening_s: float = 0.0
    warming_s: float = 0.0

    @property
    def drivers(self) -> dict[str, ArmProcesses]:
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

    def is_rare(self, arm: str) -> bool:
        """Whether it takes part in one round of a set only."""
        log = self.logs[arm]
        return log.entrant.once_if_slow and log.warmed is not None and log.warmed.step_s > RARE_STEP_S

    def lengthen(self, arm: str, steps: int) -> None:
        """Give blocks of the arm, and of all arms of the same variant, at least `steps` steps: of two equal programs the one with longer blocks
        would seem faster.
        """
        variant = self.logs[arm].entrant.variant
        for log in self.logs.values():
            if log.entrant.variant == variant and log.warmed is not None:
                log.warmed = replace(log.warmed, block_steps=max(log.warmed.block_steps, steps))

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
            inspections=tuple(self.inspections),
            refreshes=tuple(self.refreshes),
            arrivals=tuple(self.arrivals),
            short_blocks=tuple(self.short_blocks),
            stopped=stopped,
        )

    def fail(self, arm: str, failure: Failure) -> None:
        """Take `arm` out for good; the others go on."""
        self.logs[arm].failure = failure
        self.processes.leave([arm])


def begin_sampling(
    case: str,
    processes: Processes,
    budget: Budget,
    tools: Tools,
    *,
    ahead: bool,
    judge: Judge | None,
    ends_if_killed: bool,
) -> Sampling:
    """A comparison before its first set. Two process groups never live at once, so such arms do not fit together."""
    groups = sum(entrant.ranks > 1 for entrant in processes.entrants.values())
    return Sampling(
        case=case,
        logs={arm: ArmLog(entrant) for arm, entrant in processes.entrants.items()},
        budget=budget,
        tools=tools,
        rng=random.Random(tools.seed),
        processes=processes,
        arms_fit=groups < 2,
        ahead=ahead and not groups,
        judge=judge,
        ends_if_killed=ends_if_killed,
    )


def take_failure(sampling: Sampling, arm: str, failure: Failure, *, with_others: bool) -> None:
    """Take `arm` out; raises DoNotFit where it ran out of memory beside others, and may not do so alone.

    On a CPU it fails: arms that are timed one after the other can't be clocked on the same new contents, which is what tells there
    of a program that remembers.
    """
    has_own_memory = sampling.logs[arm].entrant.device != "cpu"
    if failure.reason is Reason.OUT_OF_MEMORY and with_others and sampling.arms_fit and has_own_memory:
        sampling.processes.leave(sampling.logs)
        raise DoNotFit
    sampling.fail(arm, failure)
