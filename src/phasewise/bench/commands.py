"""What a worker holds between two commands, and the commands: each a function of it, with plain arguments and answers."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import build_case, find_case, torch_device
from phasewise.bench.counting import count_work
from phasewise.bench.import_function import import_function
from phasewise.bench.memory import MemoryWatch, limit_memory, watch_memory
from phasewise.bench.ranks import Ranks, join_ranks
from phasewise.bench.sensors import Gpu, open_gpu
from phasewise.bench.stepper import Bench, bench_case, bench_function, make_flush
from phasewise.bench.threads import share_cores
from phasewise.bench.timing import measure_energy, settle, spare_heap, time_block, time_placing, time_singles, wait_for
from phasewise.model.sources import name_loaded
from phasewise.model.workload import Shape
from phasewise.records.machine import Sensors
from phasewise.records.plan import VariantPlan
from phasewise.tensor_files import Slot, read_tensors, write_tensors
from phasewise.tensors import find_problem


@dataclass(kw_only=True)
class WorkerState:
    """A bench that has made its first step."""

    bench: Bench
    ranks: Ranks
    gpu: Gpu | None
    memory: MemoryWatch
    # descriptors of the memory files, where there are any: batches to read, results to write
    files: tuple[int, ...] = ()
    # that ran before the build
    threads: frozenset[int] = frozenset()
    # what the last step of the last block gave
    last: Any = None
    # as the sensors stood before the last block
    before: Sensors | None = None

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
    # whether it has a state that steps change
    stateful: bool
    idle_power_w: float | None


def open_planned(
    files: tuple[int, ...],
    plan: dict[str, Any],
    case: str,
    root: str,
    shape: dict[str, Any] | None,
    ring: list[list[Slot]] | None = None,
    beside: int = 0,
) -> tuple[WorkerState, Opened]:
    """Build a variant in one case and make its first step, while `beside` others do so.

    `ring`: where the batches lie in the first of `files`, and last what the program is built from; without it they are made here.
    """
    planned = msgspec.convert(plan, VariantPlan)
    wanted = find_case(planned, case)
    device = torch_device(planned.device)

    def build() -> Bench:
        given = None
        if ring is not None:
            *batches, inputs = (read_tensors(files[0], slots) for slots in ring)
            given = (inputs, batches)
        return bench_case(
            build_case(planned, case, Path(root), shape=None if shape is None else Shape(**shape), given=given)
        )

    return _open(
        build,
        device,
        files=files,
        memory_bytes=wanted.memory_limit_bytes,
        weak=wanted.scaling == "weak",
        cold=wanted.cache == "cold",
        beside=beside,
    )


def open_function(
    files: tuple[int, ...],
    target: str,
    setup: str,
    arguments: dict[str, Any],
    device: str,
    memory_bytes: int | None,
    beside: int = 0,
) -> tuple[WorkerState, Opened]:
    """Load a function and call it once, while `beside` others do so."""
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return _open(
        lambda: bench_function(target, setup, arguments, device),
        torch.device("cuda", 0) if cuda and torch.cuda.is_available() else torch.device("cpu"),
        files=files,
        memory_bytes=memory_bytes,
        beside=beside,
    )


def settle_block(held: WorkerState, steps: int) -> None:
    """Get ready for a block: `steps` untimed steps, then the initial state."""
    held.last = None
    settle(held.bench, steps)
    held.before = None if held.gpu is None else held.gpu.read()


def run_block(held: WorkerState, first: int, steps: int) -> dict[str, Any]:
    """Time a block: between the question and the answer there are only the steps and the wait for them."""
    block = time_block(held.bench, first, steps, held.ranks.barrier)
    held.last = block.last
    return {"wall_s": block.wall_s, "device_s": block.device_s}


def read_sensors(held: WorkerState) -> dict[str, Any]:
    """Clock, power and temperature after the last block, and the reasons to throttle before or after it."""
    if held.gpu is None:
        return {}
    before, after = held.before, held.gpu.read()
    bits = [one.throttle_bits for one in (before, after) if one is not None and one.throttle_bits is not None]
    return {
        "sm_clock_mhz": after.sm_clock_mhz,
        "power_w": after.power_w,
        "temperature_c": after.temperature_c,
        "throttle_bits": bits[0] | bits[-1] if bits else None,
    }


def deliver(held: WorkerState, outputs: bool = True, state: bool = False) -> dict[str, Any]:
    """Write what the last step gave, the state, or both into the file of results.

    "problem" says why that can't be done: a result is no plain dense tensor.
    """
    assert held.bench.outputs is not None, "a case has outputs"
    tensors = dict(held.bench.outputs(held.last)) if outputs else {}
    if state and held.bench.state is not None:
        tensors |= {f"state/{name}": tensor for name, tensor in held.bench.state().items()}
    for name, tensor in tensors.items():
        if problem := find_problem(tensor):
            return {"problem": f"{name!r} {problem}", "slots": []}
    return {"problem": "", "slots": write_tensors(held.files[1], tensors)}


def refresh(held: WorkerState, entries: dict[str, list[Slot]]) -> None:
    """Give entries of the ring other contents, from the file of batches."""
    for entry, slots in entries.items():
        held.bench.refresh(int(entry), read_tensors(held.files[0], slots))
    wait_for(held.bench)


def apply(held: WorkerState, function: str, arguments: dict[str, Any]) -> Any:
    """What `function(state, **arguments)` gives, as JSON has it."""
    return import_function(function)(held, **arguments)


def run_singles(held: WorkerState, count: int) -> list[float]:
    """Time single steps."""
    return time_singles(held.bench, count, held.ranks.barrier)


def run_placing(held: WorkerState, count: int) -> list[float]:
    """Time the placing of a batch."""
    return time_placing(held.bench, count)


def run_energy(held: WorkerState, steps: int) -> tuple[float, float] | None:
    """Seconds and joules of a window of steps."""
    return None if held.gpu is None else measure_energy(held.bench, steps, held.gpu, held.ranks.barrier)


def count_steps(held: WorkerState, steps: int = 1) -> dict[str, Any]:
    """Operators and elements of so many steps from the initial state."""
    return vars_of(count_work(held.bench, steps))


def read_memory(held: WorkerState) -> dict[str, Any]:
    """The peak since before the build."""
    return vars_of(held.memory.peak())


def name_files(held: WorkerState) -> list[str]:
    """Names of the files that this process has loaded of the workload and the kit."""
    return name_loaded(sys.modules)


def read_threads() -> frozenset[int]:
    """Identifiers of the threads that run now."""
    return frozenset(thread.ident for thread in threading.enumerate() if thread.ident is not None)


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a flat dataclass."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _open(
    build: Callable[[], Bench],
    device: torch.device,
    *,
    files: Sequence[int],
    memory_bytes: int | None,
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
    threads = read_threads()
    # on a CPU the step itself has these threads, and what is compiled for it keeps their number
    with share_cores(beside) if device.type == "cuda" else contextlib.nullcontext():
        start = time.perf_counter()
        bench = replace(build(), flush=flush)
        wait_for(bench)
        built = time.perf_counter()
        bench.step(0)
        wait_for(bench)
        stepped = time.perf_counter()
    spare_heap()
    if bench.foreign:
        memory = replace(memory, foreign=True)
    held = WorkerState(bench=bench, ranks=ranks, gpu=gpu, memory=memory, files=tuple(files), threads=threads)
    opened = Opened(
        build_s=built - start,
        first_step_s=stepped - built,
        # weak scaling: `work` speaks of one rank, and each does as much; strong: it speaks of all together
        items=bench.items * (ranks.count if weak else 1),
        version=bench.version,
        stateful=bench.state is not None,
        idle_power_w=idle,
    )
    return held, opened
