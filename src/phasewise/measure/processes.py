"""The processes of a comparison: those of this set, and those of the sets to come, which import and build while nothing is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from phasewise.measure.driver import ArmDriver, Entrant
from phasewise.workers.failure import ProcessFailed

# of one arm at a time: each takes as much memory as torch does
AHEAD = 3


@dataclass
class Processes:
    """By arm. Imports take longer than rounds, so the processes of all sets that are sure to come do theirs together."""

    running: dict[str, ArmDriver] = field(default_factory=dict)
    waiting: dict[str, list[ArmDriver]] = field(default_factory=dict)
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

    def start(self, arm: str, entrant: Entrant, sets: int) -> None:
        """Begin the next process of `arm`, and with it those of the sets to come: of `sets` in all, so many as import at a time."""
        waiting = self.waiting.setdefault(arm, [])
        at_once = 1 if _starts_alone(entrant) else max(1, min(sets, AHEAD))
        waiting += [entrant.start() for _ in range(at_once - len(waiting))]
        self.running[arm] = waiting.pop(0)

    def wait(self) -> None:
        """Until the processes of the sets to come have imported; one that could not is started again in its turn."""
        for arm, waiting in self.waiting.items():
            self.waiting[arm] = [driver for driver in waiting if _could(driver.wait)]

    @property
    def to_come(self) -> list[ArmDriver]:
        """Those of the sets to come."""
        return [driver for waiting in self.waiting.values() for driver in waiting]

    def open_waiting(self, *, beside: int = 0) -> None:
        """Build those of the sets to come, all at once and beside others; one that could not is started again in its turn."""
        self.built = True
        drivers = self.to_come
        if not drivers:
            return
        others = beside + len(drivers) - 1
        acts = [partial(driver.open, beside=others) for driver in drivers]
        with ThreadPoolExecutor(len(drivers)) as pool:
            opened = dict(zip(map(id, drivers), pool.map(_could, acts), strict=True))
        for arm, waiting in self.waiting.items():
            self.waiting[arm] = [driver for driver in waiting if opened[id(driver)]]

    def leave(self, arms: Iterable[str]) -> None:
        """End all processes of `arms`."""
        arms = tuple(arms)
        leaving = [self.running.pop(arm) for arm in arms if arm in self.running]
        _close([*leaving, *(driver for arm in arms for driver in self.waiting.pop(arm, []))])

    def close(self) -> None:
        """End the processes of this set."""
        _close(list(self.running.values()))
        self.running.clear()


@contextmanager
def start_ahead(
    comparisons: Mapping[str, Sequence[Entrant]], sets: int, most: int
) -> Iterator[dict[str, list[Entrant]]]:
    """The same entrants, with processes of `sets` sets that have imported already: those of the first comparisons, `most` in all.

    The imports of one comparison then wait for none of another, and none of them runs while something is timed.
    """
    stocks: list[list[ArmDriver]] = []

    def stock(entrants: Sequence[Entrant]) -> list[Entrant]:
        started = sum(map(len, stocks))
        counts = [0 if _starts_alone(entrant) else sets for entrant in entrants]
        if started + sum(counts) > most:
            # a part of them would only make the others wait
            return list(entrants)
        own: list[list[ArmDriver]] = [[] for _ in entrants]
        stocks.extend(own)
        for drivers, entrant, count in zip(own, entrants, counts, strict=True):
            for _ in range(count):
                drivers.append(entrant.start())
        return [replace(entrant, start=_draw(drivers, entrant)) for entrant, drivers in zip(entrants, own, strict=True)]

    try:
        ahead = {name: stock(entrants) for name, entrants in comparisons.items()}
        for drivers in stocks:
            drivers[:] = [driver for driver in drivers if _could(driver.wait)]
        yield ahead
    finally:
        _close([driver for drivers in stocks for driver in drivers])


def _starts_alone(entrant: Entrant) -> bool:
    """A group holds a port, and what is borrowed needs no start."""
    return entrant.ranks > 1 or entrant.warmed is not None


def _draw(stock: list[ArmDriver], entrant: Entrant) -> Callable[[], ArmDriver]:
    return lambda: stock.pop(0) if stock else entrant.start()


def _could(act: Callable[[], object]) -> bool:
    """Whether a process did what it was asked."""
    try:
        act()
    except ProcessFailed:
        return False
    return True


def _close(drivers: list[ArmDriver]) -> None:
    """End them at the same time: to leave a device takes a while."""
    if drivers:
        with ThreadPoolExecutor(len(drivers)) as pool:
            list(pool.map(lambda driver: driver.close(), drivers))
