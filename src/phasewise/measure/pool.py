"""Warm processes of one program, kept for many comparisons: starting them is what costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from phasewise.measure.entrant import Entrant
from phasewise.measure.processes import Processes
from phasewise.records.plan import Budget
from phasewise.workers.arm import ArmProcesses
from phasewise.workers.warmup import Warmed, warm_up


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Processes of one program."""

    # what they run on, "cpu" or "cuda"
    device: str
    drivers: tuple[ArmProcesses, ...]
    warmed: Warmed

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()


def fill_pool(
    start: Callable[[], ArmProcesses],
    count: int,
    device: str,
    budget: Budget,
    now: Callable[[], float],
    block_steps: int | None = None,
) -> Pool:
    """Start `count` processes on `device` at once, then open and warm up one after the other.

    All run blocks of the same number of steps: `block_steps`, or as many as the slowest to warm up asked for.
    Raises ProcessFailed if one of them can't run; the others are then closed.
    """
    drivers: list[ArmProcesses] = []
    try:
        drivers += [start() for _ in range(count)]
        for driver in drivers:
            driver.open()
        warmed = [warm_up(driver, budget, device=device, cold=False, now=now) for driver in drivers]
    except BaseException:
        for driver in drivers:
            driver.close()
        raise
    steps = block_steps or max(arm.block_steps for arm in warmed)
    return Pool(device=device, drivers=tuple(drivers), warmed=replace(warmed[0], block_steps=steps))


def draw_pair(parent: Pool, variant: Pool, rng: random.Random) -> Processes:
    """The processes of a comparison, whose sets are disjoint pairs of those in the pools, drawn anew."""
    first = rng.sample(parent.drivers, len(parent.drivers))
    if parent is variant:
        half = len(first) // 2
        first, second = first[:half], first[half : 2 * half]
    else:
        second = rng.sample(variant.drivers, len(variant.drivers))
    entrants = {
        arm: Entrant(arm=arm, variant=arm, device=pool.device, warmed=pool.warmed)
        for arm, pool in (("parent", parent), ("variant", variant))
    }
    waiting = {"parent": dict(enumerate(first)), "variant": dict(enumerate(second))}
    return Processes(entrants, lent=True, waiting=waiting)
