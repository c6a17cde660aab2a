"""Time the eager module and a reloaded export in interleaved rounds: the order within a round is drawn, one runs at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from phasewise.records.plan import Budget
from phasewise.workers.arm import ArmProcesses
from phasewise.workers.warmup import settling_steps, warm_up


def time_pair(
    eager: ArmProcesses,
    export: ArmProcesses,
    budget: Budget,
    seed: int,
    *,
    device: str,
    now: Callable[[], float] = time.monotonic,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds a call of either arm, one entry a round: `min_rounds` rounds, fewer once `budget.seconds` are spent. Both run on `device`."""
    began = now()
    arms = (eager, export)
    steps = [warm_up(arm, budget, device=device, cold=False, now=now).block_steps for arm in arms]
    seconds: tuple[list[float], list[float]] = ([], [])
    order = random.Random(seed)
    for _ in range(budget.min_rounds):
        for number in order.sample((0, 1), 2):
            block = arms[number].block(steps[number], settling_steps(steps[number]))
            seconds[number].append(block["wall_s"] / steps[number])
        if now() - began > budget.seconds:
            break
    return tuple(seconds[0]), tuple(seconds[1])
