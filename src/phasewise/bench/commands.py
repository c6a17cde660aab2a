"""What a worker holds between two commands, and the commands: each a function of it, with plain arguments and answers."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import build_case, find_case, torch_device
from phasewise.bench.counting import count_work
from phasewise.bench.memory import MemoryWatch, limit_memory, watch_memory
from phasewise.bench.ranks import Ranks, join_ranks
from phasewise.bench.sensors import Gpu, open_gpu
from phasewise.bench.stepper import Bench, bench_case, bench_function, make_flush
from phasewise.bench.threads import share_cores
from phasewise.bench.timing import measure_energy, spare_heap, time_block, time_placing, time_singles, wait_for
from phasewise.model.sources import name_loaded
from phasewise.model.workload import Shape
from phasewise.records.plan import VariantPlan

Outputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class WorkerState:
    """A bench that has made its first step."""

    bench: Bench
    ranks: Ranks
    gpu: Gpu | None
    memory: MemoryWatch
    # outputs of batch 0 right after the build, and how far they may move
    first: Outputs | None
    rtol: float = 0.0
    atol: float = 0.0

    def leave(self) -> None:
        """Close the program and leave the process group."""
        self.bench.close()
        self.ranks.leave()


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What opening took and gave."""

    build_s: float
    first_step_s: float
    items: float
    version: str
    idle_power_w: float | None


def open_planned(
    plan: dict[str, Any], case: str, root: str, shape: dict[str, Any] | None, beside: int = 0
) -> tuple[WorkerState, Opened]:
    """Build a variant in one case and make its first step, while `beside` others do so."""
    planned = msgspec.convert(plan, VariantPlan)
    wanted = find_case(planned, case)
    device = torch_device(planned.device)

    def build() -> Bench:
        opened = build_case(planned, case, Path(root), shape=None if shape is None else Shape(**shape))
        return bench_case(opened)

    return _open(
        build,
        device,
        memory_bytes=wanted.memory_limit_bytes,
        tolerance=(planned.allowance.rtol, planned.allowance.atol),
        weak=wanted.scaling == "weak",
        cold=wanted.cache == "cold",
        beside=beside,
    )


def open_function(
    target: str, setup: str, arguments: dict[str, Any], device: str, memory_bytes: int | None, beside: int = 0
) -> tuple[WorkerState, Opened]:
    """Load a function and call it once, while `beside` others do so."""
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return _open(
        lambda: bench_function(target, setup, arguments, device),
        torch.device("cuda", 0) if cuda and torch.cuda.is_available() else torch.device("cpu"),
        memory_bytes=memory_bytes,
        tolerance=(0.0, 0.0),
        beside=beside,
    )


def run_block(held: WorkerState, steps: int, settle: int) -> dict[str, Any]:
    """Time a block from the initial state."""
    return vars_of(time_block(held.bench, steps, settle=settle, barrier=held.ranks.barrier, gpu=held.gpu))


def run_singles(held: WorkerState, count: int) -> list[float]:
    """Time single steps."""
    return time_singles(held.bench, count, held.ranks.barrier)


def run_placing(held: WorkerState, count: int) -> list[float]:
    """Time the placing of a batch."""
    return time_placing(held.bench, count)


def run_energy(held: WorkerState, steps: int) -> tuple[float, float] | None:
    """Seconds and joules of a window of steps."""
    return None if held.gpu is None else measure_energy(held.bench, steps, held.gpu, held.ranks.barrier)


def check_outputs(held: WorkerState) -> bool | None:
    """Whether batch 0 still gives what it gave right after the build; None where there is nothing to compare."""
    if held.first is None or held.bench.outputs is None:
        return None
    held.bench.restore()
    now = held.bench.outputs(_finish(held.bench, held.bench.step(0)))
    return now.keys() == held.first.keys() and all(
        is_near(now[name], held.first[name], held.rtol, held.atol) for name in now
    )


def count_step(held: WorkerState) -> dict[str, Any]:
    """Operators and elements of one step from the initial state."""
    return vars_of(count_work(held.bench))


def read_memory(held: WorkerState) -> dict[str, Any]:
    """The peak since before the build."""
    return vars_of(held.memory.peak())


def name_files(held: WorkerState) -> list[str]:
    """Names of the files that this process has loaded of the workload and the kit."""
    return name_loaded(sys.modules)


def is_near(now: torch.Tensor, before: torch.Tensor, rtol: float, atol: float) -> bool:
    """|now - before| <= atol + rtol |before| everywhere; shape and dtype must agree, and nan equals nan."""
    if now.shape != before.shape or now.dtype != before.dtype:
        return False
    return bool(torch.isclose(now, before, rtol=rtol, atol=atol, equal_nan=True).all())


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a flat dataclass."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _open(
    build: Callable[[], Bench],
    device: torch.device,
    *,
    memory_bytes: int | None,
    tolerance: tuple[float, float],
    weak: bool = False,
    cold: bool = False,
    beside: int = 0,
) -> tuple[WorkerState, Opened]:
    ranks = join_ranks(device)
    if device.type == "cuda":
        torch.cuda.init()
    gpu = open_gpu(device.index or 0) if device.type == "cuda" else None
    idle = None if gpu is None else gpu.read().power_w
    if memory_bytes is not None:
        limit_memory(memory_bytes, device)
    # not a part of the program, so before its memory is watched
    flush = make_flush(device) if cold else None
    memory = watch_memory(device)
    # on a CPU the step itself has these threads, and what is compiled for it keeps their number
    with share_cores(beside) if device.type == "cuda" else contextlib.nullcontext():
        start = time.perf_counter()
        bench = replace(build(), flush=flush)
        wait_for(bench)
        built = time.perf_counter()
        raw = _finish(bench, bench.step(0))
        stepped = time.perf_counter()
    first = None if bench.outputs is None else bench.outputs(raw)
    # after the last use of it: a result of the size of the memory must not stay
    del raw
    spare_heap()
    if bench.foreign:
        memory = replace(memory, foreign=True)
    held = WorkerState(
        bench=bench, ranks=ranks, gpu=gpu, memory=memory, first=first, rtol=tolerance[0], atol=tolerance[1]
    )
    opened = Opened(
        build_s=built - start,
        first_step_s=stepped - built,
        # weak scaling: `work` speaks of one rank, and each does as much; strong: it speaks of all together
        items=bench.items * (ranks.count if weak else 1),
        version=bench.version,
        idle_power_w=idle,
    )
    return held, opened


def _finish(bench: Bench, raw: Any) -> Any:
    wait_for(bench)
    return raw
