"""What the raw rounds say besides times and ratios: how steady a step is, neighbours."""

from __future__ import annotations

import math
from statistics import median, quantiles

from phasewise.model.ratios import kept_rounds, step_times
from phasewise.records.measure import CaseMeasurement

Sets = list[list[float]]

# a quiet machine has less than half a core of others' load for each core; above it rounds of both arms may differ
BUSY_LOAD = 0.5
# the ninth decile of the blocks over the first; of 62 arms on an H200 whose steps the device bounds none was over it
BISTABLE = 1.25
LEAST_BLOCKS = 9


def step_logs(measured: CaseMeasurement, arm: str) -> Sets:
    """log(seconds a step) of each kept round, one list a process set."""
    return [[math.log(seconds) for seconds in times] for times in step_times(measured, arm) if min(times) > 0.0]


def range_over_sets(measured: CaseMeasurement, arm: str) -> tuple[float, float] | None:
    """Least and largest median of a process set, in seconds a step; None where fewer than two were timed."""
    medians = [median(times) for times in step_times(measured, arm)]
    return (min(medians), max(medians)) if len(medians) > 1 else None


def is_bistable(measured: CaseMeasurement, arm: str) -> bool:
    """Whether the blocks of an arm, over all its processes, differ by more than a steady step's do.

    A loop of launches is slow in spells, or for a whole process, whenever the host is: two states with little in between.
    """
    times = [seconds for found in step_times(measured, arm) for seconds in found]
    if len(times) < LEAST_BLOCKS:
        return False
    deciles = quantiles(times, n=10, method="inclusive")
    return deciles[-1] > BISTABLE * deciles[0]


def neighbour_effect(measured: CaseMeasurement) -> tuple[float, float]:
    """Share of the kept rounds in which others used the machine, and the log-ratio that they can fake at most.

    n equal users of a processor get 1 / n of it each, so others with load L slow one arm at most 1 + L times.
    """
    rounds = kept_rounds(measured)
    loads = [taken.neighbours + (taken.neighbour_load or 0.0) for taken in rounds]
    busy = [load for load in loads if load >= BUSY_LOAD]
    return (len(busy) / len(rounds), math.log1p(max(busy))) if busy else (0.0, 0.0)
