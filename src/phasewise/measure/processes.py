"""The processes of a comparison: those of this set, and those of the sets to come, which import and build while nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from phasewise.measure.entrant import Entrant
from phasewise.workers.arm import ArmProcesses, Launch, Ring
from phasewise.workers.failure import ProcessFailed

# processes of one arm that import at a time: each takes as much memory as torch does
AHEAD = 3


@dataclass
class Processes:
    """By arm. Imports take longer than rounds, so the processes of all sets that are sure to come import together."""

    entrants: Mapping[str, Entrant]
    start_one: Callable[[Launch], ArmProcesses] = ArmProcesses
    # by a pool: they are warm, and live on after the comparison
    lent: bool = False
    running: dict[str, ArmProcesses] = field(default_factory=dict)
    # of the sets to come, by number
    waiting: dict[str, dict[int, ArmProcesses]] = field(default_factory=dict)
    # whether those that wait have built
    built: bool = False

    @property
    def pids(self) -> list[int]:
        """Of all that are on the device."""
        drivers = [*self.running.values(), *(self.to_come if self.built else ())]
        return [pid for driver in drivers for pid in driver.pids]

    def are_built(self, arms: Iterable[str]) -> bool:
        """Whether the next set of `arms` has been built already."""
        return self.built and all(self.waiting.get(arm) for arm in arms)

    def start(self, arm: str, number: int, sets: int) -> None:
        """Start the process of `arm` in set `number`, and those of the sets after it: of `sets` that are left, as many as import at a time."""
        at_once = 1 if self.starts_alone(arm) else max(1, min(sets, AHEAD))
        self.start_waiting(arm, range(number, number + at_once))
        self.running[arm] = self.waiting[arm].pop(number)

    def start_waiting(self, arm: str, numbers: Iterable[int]) -> None:
        """Start the processes of `arm` in these sets, where they don't wait already."""
        waiting, launches = self.waiting.setdefault(arm, {}), self.entrants[arm].launches
        for number in numbers:
            if number not in waiting:
                waiting[number] = self.start_one(launches[min(number, len(launches) - 1)])

    def starts_alone(self, arm: str) -> bool:
        """Whether no process of a later set is started with it: a group holds a port, and what is lent runs already."""
        return self.lent or self.entrants[arm].ranks > 1

    def wait(self) -> None:
        """Wait until the processes of the sets to come have imported; one that fails is started again when its set comes."""
        for arm, waiting in self.waiting.items():
            self.waiting[arm] = {number: driver for number, driver in waiting.items() if _could(driver.wait)}

    @property
    def to_come(self) -> list[ArmProcesses]:
        """Those of the sets to come."""
        return [driver for waiting in self.waiting.values() for driver in waiting.values()]

    def open_waiting(self, ring: Ring, *, concurrent_builds: int = 0) -> None:
        """Build those of the sets to come, all at once, beside `concurrent_builds` others; one that fails is started again when its set comes."""
        self.built = True
        drivers = self.to_come
        if not drivers:
            return
        others = concurrent_builds + len(drivers) - 1
        acts = [partial(driver.open, ring=ring, concurrent_builds=others) for driver in drivers]
        with ThreadPoolExecutor(len(drivers)) as pool:
            opened = dict(zip(map(id, drivers), pool.map(_could, acts), strict=True))
        for arm, waiting in self.waiting.items():
            self.waiting[arm] = {number: driver for number, driver in waiting.items() if opened[id(driver)]}

    def leave(self, arms: Iterable[str]) -> None:
        """End all processes of `arms`."""
        arms = tuple(arms)
        leaving = [self.running.pop(arm) for arm in arms if arm in self.running]
        self._close([*leaving, *(driver for arm in arms for driver in self.waiting.pop(arm, {}).values())])

    def close(self) -> None:
        """End the processes of this set."""
        self._close(list(self.running.values()))
        self.running.clear()

    def _close(self, drivers: Sequence[ArmProcesses]) -> None:
        """All at the same time, since leaving a device takes a while."""
        if drivers and not self.lent:
            with ThreadPoolExecutor(len(drivers)) as pool:
                list(pool.map(lambda driver: driver.close(), drivers))


@contextmanager
def start_ahead(comparisons: Iterable[Processes], sets: int, most: int) -> Iterator[None]:
    """Start the processes of `sets` sets of the first comparisons, at most `most` in all, and wait until they have imported; end at last those
    that were not needed.

    The imports of one comparison then wait for none of another, and none of them runs while something is timed.
    """
    comparisons = tuple(comparisons)
    started = 0
    try:
        for processes in comparisons:
            arms = [arm for arm in processes.entrants if not processes.starts_alone(arm)]
            # all of a comparison or none: a part would only wait for the rest
            if started + sets * len(arms) <= most:
                started += sets * len(arms)
                for arm in arms:
                    processes.start_waiting(arm, range(sets))
        for processes in comparisons:
            processes.wait()
        yield
    finally:
        for processes in comparisons:
            processes.leave(processes.entrants)


def _could(act: Callable[[], object]) -> bool:
    """Whether a process did what it was asked."""
    try:
        act()
    except ProcessFailed:
        return False
    return True
