"""The best possible time of a step: its declared work at what this machine was measured to reach.

Four floors, of which the highest holds: bytes, floating-point operations, the one launch that any step takes, and barriers, which a
step can't pass before all of it has got there. A launch costs what a node of a CUDA graph does, if that is the cheapest.
"""

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
    """Seconds that a step needs at least; 0 where something bounds nothing."""

    # "memory" or "cache", whichever the bytes come from
    source: str
    bytes_s: Seconds
    flops_s: Seconds
    # of one launch, and of all barriers with it
    launch_s: Seconds
    barriers_s: Seconds
    # what no honest step can beat: of the bytes and operations alone, with all of the last-level cache and the fastest number
    # format on its side
    least_s: Seconds

    @property
    def seconds(self) -> Seconds:
        return max(self.bytes_s, self.flops_s, self.launch_s, self.barriers_s)

    @property
    def kind(self) -> str:
        """Which floor holds: "memory", "cache", "compute", "launch" or "barriers"."""
        floors = {
            self.source: self.bytes_s, "compute": self.flops_s, "launch": self.launch_s, "barriers": self.barriers_s,
        }  # fmt: skip
        return max(floors, key=lambda kind: floors[kind])


def find_floor(
    work: CaseWork | None, machine: Machine, *, cold: bool = False, items: float | None = None, ranks: int = 1
) -> Floor | None:
    """The floors of one step of `work`; None without measured peaks or without declared work.

    A working set that fits in the last-level cache moves at the cached rate, unless the cache is flushed before
    each step (`cold`). Where the cache's size is unknown, the faster of both rates counts. `items`: of a step, where it is not
    as many as `work` says; they are spread over `ranks` devices, while each waits for its own launch and barriers.
    """
    peaks = machine.peaks
    if work is None or peaks is None:
        return None
    rate, source = _choose_rate(work, machine, peaks, cold)
    share = (work.items if items is None else items) / work.items / ranks
    bytes_s = share * work.bytes / rate
    flops_s = share * work.flops / _matmul_rate(peaks, work.dtype) if work.flops and peaks.matmul_flops_per_s else 0.0
    if max(bytes_s, flops_s) <= 0.0 and not work.barriers:
        return None
    fastest = max(peaks.matmul_flops_per_s.values(), default=0.0)
    launch_s = min((cost for cost in (peaks.launch_s, peaks.graph_node_s) if cost is not None), default=0.0)
    return Floor(
        source=source, bytes_s=bytes_s, flops_s=flops_s, launch_s=launch_s,
        barriers_s=(1 + work.barriers) * launch_s if work.barriers else 0.0,
        least_s=share * max(_least_bytes_seconds(work, machine, peaks), work.flops / fastest if fastest else 0.0),
    )  # fmt: skip


def step_floor(run: Run, variant: str, case: str) -> Floor | None:
    """The floor of a step of this variant: declared work, for the items and the devices of its arm."""
    planned, measured, arm = run[variant].planned(case), run[variant].measured(case), run[variant].arm(case)
    cold = planned is not None and planned.cache == "cold"
    # what was timed at smaller shapes only has no step of this one
    if arm is None or (measured is not None and measured.scale):
        return find_floor(run.work(case), run.machine, cold=cold)
    return find_floor(run.work(case), run.machine, cold=cold, items=arm.items, ranks=arm.ranks)


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
