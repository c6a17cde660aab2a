"""The stopwatch of a worker: blocks of steps, single steps, placing and energy windows.

The clock, the events and the synchronisation are taken when this module is imported, before any user code, so that a program
which replaces them changes nothing here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from phasewise.bench.sensors import Gpu
from phasewise.bench.stepper import Bench
from phasewise.records.machine import Sensors

_now = time.perf_counter
_Event = torch.cuda.Event
_synchronize = torch.cuda.synchronize


@dataclass(frozen=True, kw_only=True)
class Block:
    """Wall and device seconds of consecutive steps, with the sensors at its end."""

    steps: int
    wall_s: float
    device_s: float | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    # seen before or after the block
    throttle_bits: int | None = None


def wait_for(bench: Bench) -> None:
    """Until all work of the bench is done, on every stream."""
    bench.wait()
    if bench.device.type == "cuda":
        _synchronize(bench.device)


def spare_heap() -> None:
    """Collect once; the collection before each block then looks at new objects only, and takes no tenths of a second."""
    gc.collect()
    gc.freeze()


def time_block(bench: Bench, steps: int, *, settle: int, barrier: Callable[[], None], gpu: Gpu | None) -> Block:
    """`steps` steps from the initial state, host to host, after `settle` untimed ones.

    Cold steps are timed one by one, the flush between them left out.
    """
    for index in range(settle):
        bench.step(index)
    bench.restore()
    gc.collect()
    gc.disable()
    try:
        before = None if gpu is None else gpu.read()
        wait_for(bench)
        barrier()
        if bench.flush is None:
            wall, device = _time_steps(bench, 0, steps)
        else:
            parts = [_time_cold(bench, index) for index in range(steps)]
            wall = sum(part[0] for part in parts)
            device = sum(part[1] for part in parts if part[1] is not None) if parts[0][1] is not None else None
        after = None if gpu is None else gpu.read()
    finally:
        gc.enable()
    return Block(
        steps=steps,
        wall_s=wall,
        device_s=device,
        sm_clock_mhz=after.sm_clock_mhz if after else None,
        power_w=after.power_w if after else None,
        temperature_c=after.temperature_c if after else None,
        throttle_bits=_either(before, after),
    )


def time_singles(bench: Bench, count: int, barrier: Callable[[], None]) -> list[float]:
    """Seconds of `count` single steps, each synchronised, from the initial state."""
    bench.restore()
    wait_for(bench)
    barrier()
    if bench.flush is not None:
        return [_time_cold(bench, index)[0] for index in range(count)]
    return [_time_steps(bench, index, 1)[0] for index in range(count)]


def time_placing(bench: Bench, count: int) -> list[float]:
    """Seconds to place one canonical batch, `count` times; nothing where there is no placing."""
    if bench.place is None:
        return []
    found = []
    for index in range(count):
        wait_for(bench)
        start = _now()
        bench.place(index)
        wait_for(bench)
        found.append(_now() - start)
    return found


def measure_energy(bench: Bench, steps: int, gpu: Gpu, barrier: Callable[[], None]) -> tuple[float, float] | None:
    """Seconds and joules of `steps` steps; None where the GPU has no energy counter."""
    bench.restore()
    wait_for(bench)
    barrier()
    start, joules = _now(), gpu.energy_j()
    for index in range(steps):
        bench.step(index)
    wait_for(bench)
    end, joules_after = _now(), gpu.energy_j()
    return None if joules is None or joules_after is None else (end - start, joules_after - joules)


def _time_steps(bench: Bench, first: int, steps: int) -> tuple[float, float | None]:
    """Wall and device seconds; nothing is pending at the start, and nothing at the end."""
    if bench.device.type != "cuda":
        start = _now()
        for index in range(first, first + steps):
            bench.step(index)
        bench.wait()
        return _now() - start, None
    begin, end = _Event(enable_timing=True), _Event(enable_timing=True)
    start = _now()
    begin.record()
    for index in range(first, first + steps):
        bench.step(index)
    end.record()
    wait_for(bench)
    return _now() - start, begin.elapsed_time(end) / 1000


def _time_cold(bench: Bench, index: int) -> tuple[float, float | None]:
    assert bench.flush is not None
    bench.flush()
    wait_for(bench)
    return _time_steps(bench, index, 1)


def _either(before: Sensors | None, after: Sensors | None) -> int | None:
    bits = [sensors.throttle_bits for sensors in (before, after) if sensors and sensors.throttle_bits is not None]
    return None if not bits else bits[0] | bits[-1]
