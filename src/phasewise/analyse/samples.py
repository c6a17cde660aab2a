"""What the raw rounds say besides times and ratios: device time, neighbours."""

from __future__ import annotations

import math
from statistics import median

from phasewise.model.ratios import kept_rounds, step_times
from phasewise.records.measure import CaseMeasurement

Sets = list[list[float]]

# a quiet machine has less than half a core of others' load for each core; above it rounds of both arms may differ
BUSY_LOAD = 0.5


def step_logs(measured: CaseMeasurement, arm: str) -> Sets:
    """log(seconds a step) of each kept round, one list a process set."""
    return [[math.log(seconds) for seconds in times] for times in step_times(measured, arm) if min(times) > 0.0]


def median_device_s(measured: CaseMeasurement, arm: str) -> float | None:
    """Median device seconds a step; None on a CPU."""
    times = [seconds for found in step_times(measured, arm, device=True) for seconds in found]
    return median(times) if times else None


def neighbour_effect(measured: CaseMeasurement) -> tuple[float, float]:
    """Share of the kept rounds in which others used the machine, and the log-ratio that they can fake at most.

    n equal users of a processor get 1 / n of it each, so others with load L slow one arm at most 1 + L times.
    """
    rounds = kept_rounds(measured)
    loads = [taken.neighbours + (taken.neighbour_load or 0.0) for taken in rounds]
    busy = [load for load in loads if load >= BUSY_LOAD]
    return (len(busy) / len(rounds), math.log1p(max(busy))) if busy else (0.0, 0.0)
