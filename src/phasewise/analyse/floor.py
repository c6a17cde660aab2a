"""The least time that one step can take: its declared work at the rates that this machine was measured to reach."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise.records.base import Seconds
from phasewise.records.machine import Machine, Peaks
from phasewise.records.prepare import CaseWork
from phasewise.run import Run

# a copy and a matrix product are not the fastest programs that there can be: nvbench and TraceLens leave 5 to 10 %
# before they call a rate impossible
IMPOSSIBLE = 1.05


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Seconds that a step needs at least."""

    seconds: Seconds
    # which rate bounds it: "memory", "cache" or "compute"
    kind: str
    # what no honest step can beat, with all of the last-level cache and the fastest number format on its side
    least_s: Seconds
    bytes_s: Seconds
    flops_s: Seconds


def find_floor(work: CaseWork | None, machine: Machine, *, cold: bool = False) -> Floor | None:
    """The floor of one step of `work`; None without measured peaks or without declared work.

    A working set that fits in the last-level cache moves at the cached rate, unless the cache is flushed before
    each step (`cold`). Where the cache's size is unknown, the faster of both rates counts.
    """
    peaks = machine.peaks
    if work is None or peaks is None:
        return None
    rate, kind = _choose_rate(work, machine, peaks, cold)
    bytes_s = work.bytes / rate
    flops_s = work.flops / _matmul_rate(peaks, work.dtype) if work.flops and peaks.matmul_flops_per_s else 0.0
    seconds = max(bytes_s, flops_s)
    if seconds <= 0.0:
        return None
    fastest = max(peaks.matmul_flops_per_s.values(), default=0.0)
    least = max(_least_bytes_seconds(work, machine, peaks), work.flops / fastest if fastest else 0.0)
    return Floor(
        seconds=seconds, kind=kind if bytes_s >= flops_s else "compute", least_s=least, bytes_s=bytes_s, flops_s=flops_s
    )


def scale_floor(floor: Floor, *, items: float, per_step: float, ranks: int = 1) -> Floor:
    """The floor of an arm that handles `items` a step on `ranks` devices, where `per_step` items were declared."""
    factor = items / per_step / ranks
    return Floor(
        seconds=floor.seconds * factor,
        kind=floor.kind,
        least_s=floor.least_s * factor,
        bytes_s=floor.bytes_s * factor,
        flops_s=floor.flops_s * factor,
    )


def step_floor(run: Run, variant: str, case: str) -> Floor | None:
    """The floor of a step of this variant: declared work, scaled to the items and the devices of its arm."""
    work = run.work(case)
    planned = run[variant].planned(case)
    floor = find_floor(work, run.machine, cold=planned is not None and planned.cache == "cold")
    arm = run[variant].arm(case)
    if floor is None or work is None or arm is None:
        return floor
    return scale_floor(floor, items=arm.items, per_step=work.items, ranks=arm.ranks)


def floor_fraction(floor: Floor, step_s: Seconds) -> float:
    """Share of the floor's rate that a step of `step_s` reaches; 1 is the floor itself."""
    return floor.seconds / step_s


def is_impossible(floor: Floor, step_s: Seconds) -> bool:
    """Whether a step is over 105 % of the measured peak, so that it can't have done its work."""
    return floor.least_s / step_s > IMPOSSIBLE


def _choose_rate(work: CaseWork, machine: Machine, peaks: Peaks, cold: bool) -> tuple[float, str]:
    cached = peaks.cached_copy_bytes_per_s
    if cached is None or cold:
        return peaks.copy_bytes_per_s, "memory"
    if machine.cache_bytes == 0:
        return max(cached, peaks.copy_bytes_per_s), "memory"
    return (cached, "cache") if _working_set(work) <= machine.cache_bytes else (peaks.copy_bytes_per_s, "memory")


def _matmul_rate(peaks: Peaks, dtype: str) -> float:
    """The rate of `dtype`; of float32 where the machine has no such format, of the fastest where it has neither."""
    rates = peaks.matmul_flops_per_s
    return rates.get(dtype) or rates.get("float32") or max(rates.values())


def _least_bytes_seconds(work: CaseWork, machine: Machine, peaks: Peaks) -> Seconds:
    """Time of the bytes if as much of the working set as fits were still in the cache from the step before.

    A set of 1.5 times the cache can so be read faster than from memory without a trick.
    """
    cached = max(peaks.cached_copy_bytes_per_s or 0.0, peaks.copy_bytes_per_s)
    resident = 1.0 if machine.cache_bytes == 0 else min(1.0, machine.cache_bytes / max(_working_set(work), 1.0))
    return work.bytes * (resident / cached + (1.0 - resident) / peaks.copy_bytes_per_s)


def _working_set(work: CaseWork) -> float:
    return work.working_set_bytes or work.bytes
