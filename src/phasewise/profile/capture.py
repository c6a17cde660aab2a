"""One case under torch.profiler: warm it up, time it untraced, trace a few steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function, schedule
from torch.profiler import profile as torch_profile
from torch.utils._python_dispatch import TorchDispatchMode

from phasewise.bench.case import BuiltCase, build_case
from phasewise.profile.shape import choose_shape
from phasewise.profile.timeline import PLACE
from phasewise.records.plan import VariantPlan
from phasewise.workers.scratch import make_scratch

WARMUP_STEPS = 10
WARMUP_S = 1.0
# a step slower than this is counted before it is traced
SLOW_S = 1.0
# operators of one step beyond which a trace would not fit in memory: about 1 KB an event, unpacked
MOST_OPERATORS = 200_000


@dataclass(frozen=True)
class Stepper:
    """Steps of an open case, with `place` inside where the case times it."""

    case: BuiltCase
    # placed batches where they are resident
    placed: tuple[Any, ...]

    def run(self, index: int) -> Any:
        """One step on batch `index` of the ring; not synchronised."""
        if self.placed:
            return self.case.step(self.placed[index % len(self.placed)])
        with record_function(PLACE):
            placed = self.case.place(index)
        return self.case.step(placed)

    def run_many(self, count: int) -> None:
        """`count` steps, then wait for the device."""
        for index in range(count):
            self.run(index)
        self.case.synchronize()


class TooLong(Exception):
    """One step is too long to be traced."""


def open_profiled(plan: VariantPlan, case: str, root: Path) -> BuiltCase:
    """The case at the shape that is profiled."""
    return build_case(plan, case, root, shape=choose_shape(plan, case))


def make_stepper(case: BuiltCase) -> Stepper:
    """A stepper at the state that the program was built with."""
    case.restore()
    resident = case.planned.inputs == "resident"
    return Stepper(case, tuple(case.place(index) for index in range(len(case.batches))) if resident else ())


def warm_up(stepper: Stepper, clock: Callable[[], float] = time.perf_counter) -> float:
    """Step until a second or ten steps have passed, compilation in the first apart; seconds of the fastest."""
    stepper.run_many(1)
    times: list[float] = []
    while len(times) < WARMUP_STEPS and sum(times) < WARMUP_S:
        start = clock()
        stepper.run_many(1)
        times.append(clock() - start)
    return min(times)


def choose_steps(step_s: float) -> int:
    """How many steps to trace: five, two or one, the fewer the slower; a long step is often a loop of many launches."""
    for limit, steps in ((0.02, 5), (0.25, 2)):
        if step_s <= limit:
            return steps
    return 1


def refuse_long_step(stepper: Stepper, step_s: float) -> None:
    """Raise TooLong where a slow step runs more operators than a trace can hold; the program's state is then undefined."""
    if step_s > SLOW_S:
        with _CountOperators(MOST_OPERATORS):
            stepper.run_many(1)


def time_untraced(stepper: Stepper, steps: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one step, of `steps` in a row, host to host."""
    stepper.case.synchronize()
    start = clock()
    stepper.run_many(steps)
    return (clock() - start) / steps


def capture_trace(stepper: Stepper, steps: int) -> Callable[[], bytes]:
    """Trace `steps` steps in a row, after one that warms the profiler up; returns what writes the Chrome trace.

    The device is waited for once, after the last step, as in a timed block; the profiler does that itself when it stops.
    To write a trace takes seconds and no device.
    """
    activities = [ProfilerActivity.CPU]
    if stepper.case.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    stepper.case.synchronize()
    with torch_profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=False,
    ) as profiler:
        for index in range(steps + 1):
            stepper.run(index)
            if index == 0:
                # the traced steps begin with an idle device
                stepper.case.synchronize()
            profiler.step()

    def write() -> bytes:
        with make_scratch("trace") as folder:
            path = folder / "trace.json"
            profiler.export_chrome_trace(str(path))
            return path.read_bytes()

    return write


class _CountOperators(TorchDispatchMode):
    """Counts operators and stops at a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.left = limit

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """A compiled program stays one: it runs as it is traced."""
        return True

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise TooLong
        return func(*args, **(kwargs or {}))


def device_memory(device: torch.device) -> tuple[int | None, int | None, int | None]:
    """Peak allocated, peak reserved and total bytes of the device; None on a CPU."""
    if device.type != "cuda":
        return None, None, None
    total = torch.cuda.get_device_properties(device).total_memory
    return torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device), total
