"""What the raw rounds say besides times and ratios: clock cycles, device time, neighbours."""

from __future__ import annotations

import math
from statistics import median

from msgspec import structs

from phasewise.model.ratios import paired_log_ratios, step_times
from phasewise.records.measure import CaseMeasurement, Round

Sets = list[list[float]]

# a quiet machine has less than half a core of others' load for each core; above it rounds of both arms may differ
BUSY_LOAD = 0.5


def step_logs(measured: CaseMeasurement, arm: str) -> Sets:
    """log(seconds a step) of each kept round, one list a process set."""
    return [[math.log(seconds) for seconds in times] for times in step_times(measured, arm) if min(times) > 0.0]


def cycle_log_ratios(measured: CaseMeasurement, numerator: str, denominator: str) -> Sets:
    """`paired_log_ratios` of time times SM clock; empty where a clock is missing."""
    rounds = kept_rounds(measured)
    samples = [sample for taken in rounds for sample in taken.samples if sample.arm in (numerator, denominator)]
    if not samples or not all(sample.sm_clock_mhz for sample in samples):
        return []
    # a round in cycles is a round whose blocks lasted as long as their cycles do at 1 MHz
    scaled = [_in_cycles(taken) for taken in rounds]
    return paired_log_ratios(structs.replace(measured, rounds=tuple(scaled)), numerator, denominator)


def median_device_s(measured: CaseMeasurement, arm: str) -> float | None:
    """Median device seconds a step; None on a CPU."""
    times = [seconds for found in step_times(measured, arm, device=True) for seconds in found]
    return median(times) if times else None


def kept_rounds(measured: CaseMeasurement) -> list[Round]:
    """Rounds that count."""
    return [taken for taken in measured.rounds if not taken.dropped]


def neighbour_effect(measured: CaseMeasurement) -> tuple[float, float]:
    """Share of the kept rounds in which others used the machine, and the log-ratio that they can fake at most.

    n equal users of a processor get 1 / n of it each, so others with load L slow one arm at most 1 + L times.
    """
    rounds = kept_rounds(measured)
    loads = [taken.neighbours + (taken.neighbour_load or 0.0) for taken in rounds]
    busy = [load for load in loads if load >= BUSY_LOAD]
    return (len(busy) / len(rounds), math.log1p(max(busy))) if busy else (0.0, 0.0)


def _in_cycles(taken: Round) -> Round:
    samples = tuple(
        structs.replace(sample, wall_s=sample.wall_s * (sample.sm_clock_mhz or 1.0)) for sample in taken.samples
    )
    return structs.replace(taken, samples=samples)
