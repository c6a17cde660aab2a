"""Arms without processes, on a clock that only they move."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phasewise.measure.entrant import Entrant
from phasewise.measure.neighbours import Neighbours
from phasewise.measure.processes import Processes
from phasewise.measure.sampling import Tools
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import Delivered
from phasewise.workers.failure import ProcessFailed

OPENING_S = 3.0


@dataclass
class Clock:
    """Seconds that pass only when told to; numbers the processes that were started."""

    seconds: float = 0.0
    # every call of every arm, in order: (arm, call, argument)
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    # those that have built something
    built: set[int] = field(default_factory=set)
    # how many others each of them was told to build beside, in the same order
    beside: list[int] = field(default_factory=list)
    started: int = 0

    def now(self) -> float:
        return self.seconds

    def count(self, arm: str, call: str) -> int:
        return sum(entry[:2] == (arm, call) for entry in self.calls)


@dataclass
class FakeArm:
    """A process that takes `step_s` a step, give or take `noise` a block and `luck` a process."""

    clock: Clock
    name: str
    step_s: float = 1e-3
    noise: float = 0.002
    luck: float = 0.0
    items: float = 1.0
    # a failure at the `fails_at`-th call of `fails_in`
    fails_in: str = ""
    fails_at: int = 1
    reason: Reason = Reason.CRASH
    # out of memory where more than so many processes have built something
    most_built: int = 99
    opening_s: float = OPENING_S
    # first steps are slower by this, halving every hundred steps
    cold_start: float = 0.0
    # a step that is waited for takes so many times as long as one of many
    waiting: float = 1.0
    stateful: bool = False
    # to hand results back
    deliver_s: float = 0.0
    # and up to so much longer, as it falls out
    deliver_spread_s: float = 0.0
    # to collect garbage before a block
    collect_s: float = 0.0
    # of a step, in one count after the other
    operators: tuple[int, ...] = (10,)
    # what is found in its hooks
    untimed_work: str = ""
    sensors: Callable[[int], dict[str, Any]] = lambda block: {}

    def __post_init__(self) -> None:
        self.number = self.clock.started
        self.clock.started += 1
        self.clock.alive.add(self.number)
        self.random = random.Random(self.number)
        self.factor = 1.0 + self.luck * self.random.gauss(0, 1)
        self.steps = 0
        self.blocks = 0

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.number,)

    def wait(self) -> None:
        self._call("wait")

    def open(self, *, ring: Any = None, concurrent_builds: int = 0) -> dict[str, Any]:
        if self.number not in self.clock.built:
            self._call("open", self.number)
            self.clock.beside.append(concurrent_builds)
            self.clock.built.add(self.number)
            if len(self.clock.built) > self.most_built:
                self.close()
                raise ProcessFailed(Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory"))
            self.clock.seconds += self.opening_s
        return {
            "build_s": 2.0,
            "first_step_s": 1.0,
            "items": self.items,
            "version": "",
            "stateful": self.stateful,
            "idle_power_w": None,
        }

    def block(self, steps: int, settle: int, first: int = 0) -> dict[str, Any]:
        self.settle(settle)
        return self.block_at_once(steps, first)

    def settle(self, steps: int) -> None:
        self.clock.seconds += self.collect_s + sum(self._step() for _ in range(steps))

    def block_at_once(self, steps: int, first: int = 0) -> dict[str, Any]:
        self._call("block", steps)
        self.blocks += 1
        wall = steps * self.step_s * self.factor * (1.0 + self.random.gauss(0, self.noise))
        self.clock.seconds += wall
        return {"steps": steps, "wall_s": wall, **self.sensors(self.blocks)}

    def singles(self, count: int) -> list[float]:
        self._call("singles", count)
        times = [self.waiting * self._step() for _ in range(count)]
        self.clock.seconds += sum(times)
        return times

    def placing(self, count: int) -> list[float]:
        self._call("placing", count)
        return [1e-5] * count

    def energy(self, steps: int) -> tuple[float, float] | None:
        self._call("energy", steps)
        self.clock.seconds += steps * self.step_s
        return steps * self.step_s, steps * self.step_s * 500.0

    def files(self) -> set[str]:
        return {"program.py"}

    def deliver(self, *, outputs: bool = True, state: bool = False) -> list[Delivered]:
        self._call("deliver")
        self.clock.seconds += self.deliver_s + self.deliver_spread_s * self.random.random()
        return [Delivered(problem="", slots=[])]

    def apply(self, function: str, kind: type) -> list[Any]:
        self._call("apply")
        return [self.untimed_work]

    def refresh(self, entries: Any) -> None:
        self._call("refresh", len(entries))

    def count(self, steps: int = 1) -> tuple[int, int]:
        self._call("count", steps)
        per_step = self.operators[(self.clock.count(self.name, "count") - 1) % len(self.operators)]
        return per_step * steps, 100 * steps

    def memory(self) -> tuple[int, str]:
        self._call("memory")
        return 1000 + self.number, "host-resident"

    def close(self) -> None:
        self.clock.alive.discard(self.number)
        self.clock.built.discard(self.number)

    def _step(self) -> float:
        self.steps += 1
        slower = 1.0 + self.cold_start * 0.5 ** (self.steps / 100)
        return self.step_s * self.factor * slower * (1.0 + self.random.gauss(0, self.noise))

    def _call(self, call: str, argument: int = 0) -> None:
        self.clock.calls.append((self.name, call, argument))
        if call == self.fails_in and self.clock.count(self.name, call) >= self.fails_at:
            self.close()
            raise ProcessFailed(Failure(reason=self.reason, message=f"{self.name} broke"))


@dataclass
class Quiet:
    """Nobody else is there."""

    def look(self, workers: Iterable[int]) -> Neighbours:
        return Neighbours(load=0.0, processes=0)


def tools(clock: Clock, seed: int = 0) -> Tools:
    return Tools(watch=Quiet(), now=clock.now, seed=seed)


@dataclass(frozen=True)
class FakeLaunch:
    """Stands in for what a process is started from."""

    clock: Clock
    arm: str
    fake: Mapping[str, Any]


def start_fake(launch: FakeLaunch) -> FakeArm:
    """Start what was planned."""
    return FakeArm(launch.clock, launch.arm, **launch.fake)


def entrant(clock: Clock, arm: str, *, entry: dict[str, Any] | None = None, **fake: Any) -> Entrant:
    """An arm of a fake; `entry` are fields of the entrant."""
    fields = {"device": "cuda", **(entry or {})}
    return Entrant(arm=arm, variant=f"v-{arm}", launches=(FakeLaunch(clock, arm, fake),), **fields)


def plan_fakes(*entrants: Entrant) -> Processes:
    """Their processes, none of which is started yet."""
    return Processes({entrant.arm: entrant for entrant in entrants}, start_fake)
