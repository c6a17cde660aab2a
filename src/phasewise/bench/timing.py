"""The stopwatch of a worker: blocks of steps, single steps, placing and energy windows.

The clock, the events and the synchronisation are taken when this module is imported, before any user code, so that a program
which replaces them changes nothing here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from phasewise.bench.sensors import Gpu
from phasewise.bench.stepper import Bench

_now = time.perf_counter
_Event = torch.cuda.Event
_synchronize = torch.cuda.synchronize


def read_clock() -> dict[str, Any]:
    """The functions and classes that measuring relies on, as everybody finds them."""
    return {
        "time.perf_counter": time.perf_counter,
        "time.perf_counter_ns": time.perf_counter_ns,
        "time.monotonic": time.monotonic,
        "torch.cuda.synchronize": torch.cuda.synchronize,
        "torch.cuda.Event": torch.cuda.Event,
    }


# as they were before any user code
CLOCK = read_clock()


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps that were timed."""

    wall_s: float
    # before and after them, or before and after each; none on a CPU
    events: tuple[tuple[torch.cuda.Event, torch.cuda.Event], ...]
    # what the last step gave
    last: Any

    @property
    def device_s(self) -> float | None:
        """Seconds on the device."""
        spans = [began.elapsed_time(ended) / 1000 for began, ended in self.events]
        return sum(spans) if spans else None


def wait_for(bench: Bench) -> None:
    """Until all work of the bench is done, on every stream."""
    bench.wait()
    if bench.device.type == "cuda":
        _synchronize(bench.device)


def freeze_heap() -> None:
    """Collect once; the collection before each block then looks at new objects only, and takes no tenths of a second."""
    gc.collect()
    gc.freeze()


def settle(bench: Bench, steps: int) -> None:
    """`steps` untimed steps, then the initial state, with nothing pending and no garbage left to collect."""
    for index in range(steps):
        bench.step(index)
    bench.restore()
    gc.collect()
    wait_for(bench)


def time_block(bench: Bench, first: int, steps: int, barrier: Callable[[], None]) -> Block:
    """`steps` steps from number `first`, host to host. Cold steps are timed one by one, the flush between them left out.

    Garbage is collected again once `collect_again` is called: what the steps left would hold up the answer, also where they have
    turned its collection on.
    """
    gc.disable()
    barrier()
    if bench.flush is None:
        return _time_steps(bench, first, steps)
    parts = [_time_cold(bench, index) for index in range(first, first + steps)]
    return Block(
        wall_s=sum(part.wall_s for part in parts),
        events=tuple(pair for part in parts for pair in part.events),
        last=parts[-1].last,
    )


def collect_again() -> None:
    """Undo what the end of a block or of a single step has left off."""
    gc.enable()


def time_singles(bench: Bench, count: int, barrier: Callable[[], None]) -> list[float]:
    """Seconds of `count` single steps, each synchronised, from the initial state."""
    bench.restore()
    wait_for(bench)
    barrier()
    found = []
    for index in range(count):
        single = _time_steps(bench, index, 1) if bench.flush is None else _time_cold(bench, index)
        found.append(single.wall_s)
        collect_again()
    return found


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


def _time_steps(bench: Bench, first: int, steps: int) -> Block:
    """Nothing is pending at the start, and nothing at the end, when no garbage is collected any more. Only the last result is kept: those
    before it take no memory.
    """
    step, end = bench.step, first + steps - 1
    if bench.device.type != "cuda":
        start = _now()
        for index in range(first, end):
            step(index)
        last = step(end)
        bench.wait()
        wall_s = _now() - start
        gc.disable()
        return Block(wall_s=wall_s, events=(), last=last)
    began, ended = _Event(enable_timing=True), _Event(enable_timing=True)
    start = _now()
    began.record()
    for index in range(first, end):
        step(index)
    last = step(end)
    ended.record()
    wait_for(bench)
    wall_s = _now() - start
    gc.disable()
    return Block(wall_s=wall_s, events=((began, ended),), last=last)


def _time_cold(bench: Bench, index: int) -> Block:
    assert bench.flush is not None
    bench.flush()
    wait_for(bench)
    return _time_steps(bench, index, 1)
