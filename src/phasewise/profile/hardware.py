"""The device's sensors over time while the step runs, read in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from phasewise.records.machine import Sensors

# how long the step is run under the sensors; NVML renews its readings every 20 to 100 ms
WINDOW_S = 1.5
PERIOD_S = 0.05


def watch(
    work: Callable[[], object], read: Callable[[], Sensors], *, window_s: float = WINDOW_S, period_s: float = PERIOD_S,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Sensors, ...]:  # fmt: skip
    """Repeat `work` for `window_s` seconds, once at least, and read the sensors every `period_s` meanwhile."""
    readings: list[Sensors] = []
    done = threading.Event()

    def follow() -> None:
        while True:
            readings.append(read())
            if done.wait(period_s):
                return

    thread = threading.Thread(target=follow, name="sensors", daemon=True)
    start = clock()
    thread.start()
    try:
        work()
        while clock() - start < window_s:
            work()
    finally:
        done.set()
        thread.join()
    return tuple(readings)
