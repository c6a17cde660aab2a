"""Which steps are left out, which are timed, and which are traced."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, schedule
from torch.profiler import profile as torch_profile

from phasewise.profile.capture import choose_steps, device_memory
from phasewise.profile.facts import Compiler, read_compiler

# a step is warm after so many, or after so many seconds and no fewer than the least
WARMUP_STEPS, WARMUP_S, LEAST_STEPS = 10, 5.0, 3


class Enough(BaseException):
    """All that was to be seen has been seen; a BaseException, since scripts catch others by habit."""


class Window:
    """Follows the ends of steps: warm-up, then steps without a profiler, then one that warms it up, then traced ones."""

    def __init__(self, warmup: int | None, steps: int | None, trace: Path) -> None:
        self._warmup = warmup
        self._steps = steps
        self._trace = trace
        self._profiler: torch_profile | None = None
        self._before = Compiler()
        # moments at which steps ended; and how many of them were warm-up
        self._ends: list[float] = []
        self._first = 0
        self.step_s = 0.0
        self.is_complete = False

    @property
    def steps(self) -> int:
        """Whole steps so far; what came before the first end is none."""
        return max(0, len(self._ends) - 1)

    @property
    def warmup(self) -> int:
        return self._first

    @property
    def times_s(self) -> tuple[float, ...]:
        """Of each untraced step, host to host."""
        ends = self._ends[self._first : self._first + (self._steps or 0) + 1]
        return tuple(end - start for start, end in itertools.pairwise(ends))

    @property
    def needed(self) -> int:
        """Whole steps that a script has to make at least."""
        return (WARMUP_STEPS if self._warmup is None else self._warmup) + 2 * (self._steps or choose_steps(0.0)) + 1

    @property
    def is_tracing(self) -> bool:
        return self._profiler is not None

    @property
    def is_warm(self) -> bool:
        return self._first > 0

    def restart(self) -> None:
        """Forget what was seen: something else is taken for a step."""
        self._ends.clear()

    def end_step(self) -> None:
        """A step has ended, and the next begins.

        Raises:
            Enough: it was the last that was to be traced.
        """
        if self.is_complete:
            raise Enough
        self._ends.append(time.perf_counter())
        if not self.is_warm:
            if self._has_warmed_up():
                self._begin_timing()
            return
        assert self._steps is not None, "chosen when it was warm"
        if self._profiler is not None:
            self._profiler.step()
            if self.steps == self._first + self._steps + 1:
                # the traced steps begin with an idle device
                synchronize()
            elif self.steps == self._first + 2 * self._steps + 1:
                self._finish()
        elif self.steps == self._first + self._steps:
            synchronize()
            self.step_s = (time.perf_counter() - self._ends[self._first]) / self._steps
            self._begin_tracing()

    def _has_warmed_up(self) -> bool:
        if self._warmup is not None:
            return self.steps >= max(1, self._warmup)
        seconds = self._ends[-1] - self._ends[0]
        return self.steps >= WARMUP_STEPS or (self.steps >= LEAST_STEPS and seconds >= WARMUP_S)

    def _begin_timing(self) -> None:
        if self._steps is None:
            self._steps = choose_steps(min(end - start for start, end in zip(self._ends, self._ends[1:], strict=False)))
        self._first = self.steps
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()
        self._before = read_compiler()
        synchronize()
        self._ends[-1] = time.perf_counter()

    def _begin_tracing(self) -> None:
        assert self._steps is not None, "chosen when it was warm"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_initialized() else [])]
        self._profiler = torch_profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=self._steps, repeat=1),
            record_shapes=True,
            profile_memory=True,
        )
        self._profiler.start()

    def _finish(self) -> None:
        assert self._profiler is not None, "steps were traced"
        self._profiler.stop()
        self._profiler.export_chrome_trace(str(self._trace))
        self.is_complete = True
        raise Enough

    def tell_device(self) -> dict[str, Any]:
        """Memory since the first timed step, and what torch.compile did since then."""
        after = read_compiler()
        on_device = torch.cuda.is_initialized()
        device = torch.device("cuda", torch.cuda.current_device()) if on_device else torch.device("cpu")
        peak, reserved, capacity = device_memory(device)
        return {
            "device": device.type, "peak_bytes": peak, "reserved_bytes": reserved, "capacity_bytes": capacity,
            "allocation_retries": torch.cuda.memory_stats(device).get("num_alloc_retries", 0) if on_device else 0,
            "graph_breaks": after.breaks, "recompiles": after.graphs - self._before.graphs,
        }  # fmt: skip


def synchronize() -> None:
    """Wait for the device, where the script uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
