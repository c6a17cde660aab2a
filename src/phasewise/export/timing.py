"""Time the eager module and a reloaded export in turns: the order within a round is drawn, one runs at a time."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from phasewise.records.plan import Budget

# seconds of `steps` calls of one arm
Block = Callable[[int], float]

# a call longer than this is timed one by one
LONG_CALL_S = 0.2
# warm-up ends when a block repeats the one before within this share, or after so many blocks
STEADY = 0.05
WARMUP_BLOCKS = 10


def time_pair(
    eager: Block, export: Block, budget: Budget, seed: int, *, clock: Callable[[], float] = time.monotonic
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds a call of either arm, one entry a round: `min_rounds` rounds, fewer once `budget.seconds` are spent."""
    start = clock()
    arms = (eager, export)
    steps = [warm_up(block, budget) for block in arms]
    seconds: tuple[list[float], list[float]] = ([], [])
    order = random.Random(seed)
    for _ in range(budget.min_rounds):
        for arm in order.sample((0, 1), 2):
            seconds[arm].append(arms[arm](steps[arm]) / steps[arm])
        if clock() - start > budget.seconds:
            break
    return tuple(seconds[0]), tuple(seconds[1])


def warm_up(block: Block, budget: Budget) -> int:
    """Call an arm until its time is steady; returns the calls of a block of at least `block_s` and `block_steps`."""
    # the first call may compile or allocate
    block(1)
    once = block(1)
    steps = 1 if once > LONG_CALL_S else max(budget.block_steps, math.ceil(budget.block_s / max(once, 1e-7)))
    before = block(steps)
    for _ in range(WARMUP_BLOCKS):
        now = block(steps)
        if abs(now - before) <= STEADY * before:
            break
        before = now
    # the first estimate of a short call is mostly overhead
    if now < budget.block_s and now / steps < LONG_CALL_S:
        steps = math.ceil(steps * budget.block_s / max(now, 1e-7))
    return steps
