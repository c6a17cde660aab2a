"""Before the rounds: step until the times no longer trend, then find how many steps a block takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from phasewise.records.plan import Budget
from phasewise.stats import is_warm
from phasewise.workers.arm import ArmProcesses

# steps of a window, at least and at most; of slow steps there are fewer, and three windows still show a trend in nine points
WINDOW = (10, 100)
SLOW_WINDOW = 3
# seconds of a window of fast steps
WINDOW_S = 0.05
# seconds of a warm-up, at least: GPU clocks rise within about 0.3 s, and what a CPU has to load is loaded in three windows. Or as long as so many
# blocks take, where these are shorter than 0.02 s
LEAST_S = 0.3
CPU_LEAST_S = 0.15
LEAST_BLOCKS = 15
MOST_S = 30.0
# a step that takes longer, or is slow for the budget, is a block of its own
LONG_STEP_S = 0.2
# a step may still compile after the first one: up to so many are made, within so many seconds, before it counts as slow
TRIES = 3
TRIES_S = 10.0
# blocks may fall short of the wanted length by this much before they are lengthened
SLACK = 0.9
# the fastest of so many blocks tells their length, since disturbances make them longer; one that lasts so many times as long as wanted is enough
BLOCKS = 3
AMPLE = 3.0


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """An arm that is ready: steps it took, seconds of one, and steps of a block."""

    warmup_steps: int
    step_s: float
    block_steps: int


def warm_up(driver: ArmProcesses, budget: Budget, *, device: str, cold: bool, now: Callable[[], float]) -> Warmed:
    """Step until stable, for 30 s at most; a step that stays slower than the budget's `slow_step_s` is made three times at most.

    `device` is "cpu" or that of a GPU, whose clocks have to rise.
    """
    start = now()
    times = driver.singles(1)
    while times[-1] > budget.slow_step_s and len(times) < TRIES and now() - start < TRIES_S:
        times += driver.singles(1)
    is_slow = times[-1] > budget.slow_step_s
    # the window is chosen by a step that surely compiles nothing any more
    if not is_slow:
        times += driver.singles(2)
    window = _choose_window(times[-1])
    least_s = min(CPU_LEAST_S if device == "cpu" else LEAST_S, LEAST_BLOCKS * budget.block_s)
    while not is_slow and now() - start < MOST_S:
        times += driver.singles(window)
        if sum(times) >= least_s and is_warm(times, window=window):
            break
    step_s = median(times[-window:]) if len(times) > window else times[-1]
    if cold or step_s > min(LONG_STEP_S, budget.slow_step_s):
        steps = 1
    elif device == "cpu":
        # a single step waits for nothing there, so the fastest tells how long a block lasts at least
        steps = max(budget.block_steps, math.ceil(budget.block_s / min(times)))
    else:
        steps = _choose_steps(driver, step_s, budget)
    return Warmed(warmup_steps=len(times) + 1, step_s=step_s, block_steps=steps)


def settling_steps(block_steps: int) -> int:
    """Untimed steps before a block: one, that fills caches which other arms have emptied, unless the block is a single step."""
    return 1 if block_steps > 1 else 0


def _choose_window(step_s: float) -> int:
    if step_s > WINDOW_S:
        return SLOW_WINDOW
    return max(WINDOW[0], min(WINDOW[1], math.ceil(WINDOW_S / step_s)))


def _choose_steps(driver: ArmProcesses, step_s: float, budget: Budget) -> int:
    """Steps that last at least `block_s`; single steps wait for the device each, so a guess from them is too low."""
    steps = max(budget.block_steps, math.ceil(budget.block_s / step_s))
    for _ in range(4):
        wall = _time_fastest(driver, steps, AMPLE * budget.block_s)
        if wall >= SLACK * budget.block_s:
            break
        steps = math.ceil(steps * budget.block_s / wall)
    return steps


def _time_fastest(driver: ArmProcesses, steps: int, enough_s: float) -> float:
    """Seconds of the fastest of several blocks; of one if that lasts long enough."""
    walls: list[float] = []
    while len(walls) < BLOCKS and (not walls or min(walls) < enough_s):
        walls.append(driver.block(steps, settling_steps(steps))["wall_s"])
    return min(walls)
