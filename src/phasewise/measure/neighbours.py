"""Who else uses this machine while we measure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from phasewise.bench.sensors import Gpu, open_gpu

STAT = Path("/proc/stat")
# proc(5): user, nice, system, irq, softirq and steal are work; idle and iowait are not. Guests are counted in user
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
# the kernel counts in hundredths of a second; over less than this the load would be mostly rounding
LEAST_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Load of other processes a core since they were last looked at, and other processes on the GPU."""

    load: float | None = None
    processes: int = 0


@dataclass
class Watch:
    """Compares what the machine did with what we and our workers did."""

    gpu: Gpu | None
    now: Callable[[], float] = time.monotonic
    _last: tuple[float, float, dict[int, float]] | None = field(default=None, init=False)

    def look(self, workers: Iterable[int]) -> Neighbours:
        """`workers`: the processes that are ours, besides this one."""
        pids = tuple(workers)
        return Neighbours(load=self._load(pids), processes=self._processes(pids))

    def _load(self, workers: tuple[int, ...]) -> float | None:
        now, busy = self.now(), _busy_seconds()
        if busy is None or (self._last is not None and now - self._last[0] < LEAST_S):
            return None
        state = (now, busy, {pid: _used_seconds(pid) for pid in (*workers, os.getpid())})
        last, self._last = self._last, state
        if last is None:
            return None
        own = sum(used - last[2].get(pid, used) for pid, used in state[2].items())
        cores = os.cpu_count() or 1
        return max(0.0, (busy - last[1] - own) / (state[0] - last[0]) / cores)

    def _processes(self, workers: tuple[int, ...]) -> int:
        """In a container the driver's process ids are not ours; then those beyond our number are others."""
        if self.gpu is None:
            return 0
        seen = self.gpu.processes()
        if any(pid in workers for pid in seen):
            return sum(pid not in workers for pid in seen)
        return max(0, len(seen) - len(workers))


def watch_machine(device: str) -> Watch:
    """A watch of the machine that `device` names; the GPU's processes only where there is one."""
    return Watch(gpu=None if device == "cpu" else open_gpu())


def _busy_seconds() -> float | None:
    """Processor seconds of all processes since the start."""
    if not STAT.is_file():
        return None
    fields = STAT.read_text().split("\n", 1)[0].split()[1:]
    ticks = sum(int(fields[index]) for index in BUSY_FIELDS if index < len(fields))
    return ticks / os.sysconf("SC_CLK_TCK")


def _used_seconds(pid: int) -> float:
    """User and system seconds of one process and of its children that have ended; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # the name may hold spaces and parentheses; proc_pid_stat(5): utime is field 14, and the name is field 2
    fields = text.rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
