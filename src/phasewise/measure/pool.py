"""Warm processes of one program, kept for many comparisons: starting them is what costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phasewise.measure.driver import ArmDriver, Entrant
from phasewise.records.plan import Budget
from phasewise.workers.arm import Delivered
from phasewise.workers.warmup import Warmed, warm_up


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Processes of one program."""

    drivers: tuple[ArmDriver, ...]
    opened: dict[str, Any]
    warmed: Warmed

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()


class Borrowed:
    """A process of a pool that plays the part of a fresh one: opening tells what is known, closing gives it back."""

    def __init__(self, driver: ArmDriver, opened: dict[str, Any]) -> None:
        self._driver, self._opened = driver, opened

    @property
    def pids(self) -> tuple[int, ...]:
        return self._driver.pids

    def wait(self) -> None:
        return None

    def open(self, *, beside: int = 0) -> dict[str, Any]:
        return self._opened

    def block(self, steps: int, settle: int, first: int = 0) -> dict[str, Any]:
        return self._driver.block(steps, settle, first)

    def deliver(self, *, outputs: bool = True, state: bool = False) -> list[Delivered]:
        return self._driver.deliver(outputs=outputs, state=state)

    def refresh(self, entries: Mapping[str, Any]) -> None:
        self._driver.refresh(entries)

    def count(self, steps: int = 1) -> tuple[int, int]:
        return self._driver.count(steps)

    def singles(self, count: int) -> list[float]:
        return self._driver.singles(count)

    def placing(self, count: int) -> list[float]:
        return self._driver.placing(count)

    def energy(self, steps: int) -> tuple[float, float] | None:
        return self._driver.energy(steps)

    def files(self) -> set[str]:
        return self._driver.files()

    def memory(self) -> tuple[int, str]:
        return self._driver.memory()

    def close(self) -> None:
        return None


def fill_pool(
    start: Callable[[], ArmDriver], count: int, budget: Budget, now: Callable[[], float], block_steps: int | None = None
) -> Pool:
    """Start `count` processes at once, then open and warm up one after the other.

    All run blocks of the same number of steps: `block_steps`, or as many as the slowest to warm up asked for.
    Raises ProcessFailed if one of them can't run; the others are then closed.
    """
    drivers: list[ArmDriver] = []
    try:
        drivers += [start() for _ in range(count)]
        opened = [driver.open() for driver in drivers]
        warmed = [warm_up(driver, budget, cold=False, now=now) for driver in drivers]
    except BaseException:
        for driver in drivers:
            driver.close()
        raise
    steps = block_steps or max(arm.block_steps for arm in warmed)
    return Pool(drivers=tuple(drivers), opened=opened[0], warmed=replace(warmed[0], block_steps=steps))


def draw_pair(parent: Pool, variant: Pool, rng: random.Random) -> tuple[tuple[Entrant, Entrant], int]:
    """Two arms whose process sets are disjoint pairs of processes, drawn anew; and how many sets they can give."""
    if parent is variant:
        shuffled = rng.sample(parent.drivers, len(parent.drivers))
        half = len(shuffled) // 2
        first, second = shuffled[:half], shuffled[half : 2 * half]
    else:
        first = rng.sample(parent.drivers, len(parent.drivers))
        second = rng.sample(variant.drivers, len(variant.drivers))
    sets = min(len(first), len(second))
    return (_lend("parent", parent, first), _lend("variant", variant, second)), sets


def _lend(arm: str, pool: Pool, drivers: Sequence[ArmDriver]) -> Entrant:
    waiting: Iterator[ArmDriver] = iter(drivers)
    return Entrant(arm=arm, variant=arm, start=lambda: Borrowed(next(waiting), pool.opened), warmed=pool.warmed)
