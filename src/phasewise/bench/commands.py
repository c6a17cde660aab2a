"""What a worker holds between two commands, and the commands: each a function of it, with plain arguments and answers."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from phasewise.bench.case import torch_device
from phasewise.bench.counting import count_work
from phasewise.bench.import_function import import_function
from phasewise.bench.memory import MemoryWatch, limit_memory, watch_memory
from phasewise.bench.ranks import Ranks, join_ranks
from phasewise.bench.sensors import Gpu, open_gpu
from phasewise.bench.stepper import Bench, make_flush
from phasewise.bench.tampering import find_tampering
from phasewise.bench.threads import share_cores
from phasewise.bench.timing import (
    Block,
    collect_again,
    freeze_heap,
    measure_energy,
    settle,
    time_block,
    time_placing,
    time_singles,
    wait_for,
)
from phasewise.model.sources import name_loaded
from phasewise.records.machine import Sensors
from phasewise.tensor_files import Slot, read_tensors, write_tensors
from phasewise.tensors import find_problem
from phasewise.workers.channel import Channel


@dataclass(kw_only=True)
class WorkerState:
    """A bench that has made its first step."""

    bench: Bench
    ranks: Ranks
    gpu: Gpu | None
    memory: MemoryWatch
    # descriptors of the memory files, where there are any: batches to read, results to write
    files: tuple[int, ...] = ()
    # identifiers of those that ran before the build
    threads: frozenset[int] = frozenset()
    # the last block, until the next begins
    block: Block | None = None
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
    # whether the build drew, or seeded, random numbers
    draws: bool
    # whether it has imported torch's compiler: what compiles does, and some of torch by the way
    has_compiler: bool
    idle_power_w: float | None


def open_bench(
    files: tuple[int, ...],
    make: str,
    arguments: dict[str, Any],
    device: str,
    memory_bytes: int | None = None,
    weak: bool = False,
    cold: bool = False,
    ring: list[list[Slot]] | None = None,
    concurrent_builds: int = 0,
) -> tuple[WorkerState, Opened]:
    """Open the bench that the function `make` gives for `arguments` and make its first step, while `concurrent_builds` others do so.

    `ring`: where the batches lie in the first of `files`, and last what the program is built from; without it they are made here.
    """
    place = torch_device(device)
    ranks = join_ranks(place)
    if place.type == "cuda":
        torch.cuda.init()
    gpu = open_gpu(place.index or 0) if place.type == "cuda" else None
    idle = None if gpu is None else gpu.read().power_w
    if memory_bytes is not None:
        limit_memory(memory_bytes, place)
    # not a part of the program, so before its memory is watched
    flush = make_flush(place) if cold else None
    memory = watch_memory(place)
    threads, drawn = read_threads(), torch.get_rng_state()
    start = time.perf_counter()
    # not on a CPU, where the step has the same threads
    with share_cores(concurrent_builds) if place.type == "cuda" else contextlib.nullcontext():
        if ring is not None:
            *batches, inputs = (read_tensors(files[0], slots) for slots in ring)
            arguments = {**arguments, "given": (inputs, batches)}
        bench: Bench = replace(import_function(make)(**arguments), flush=flush)
        wait_for(bench)
    built = time.perf_counter()
    draws = not torch.equal(drawn, torch.get_rng_state())
    bench.step(0)
    wait_for(bench)
    stepped = time.perf_counter()
    freeze_heap()
    if bench.foreign:
        memory = replace(memory, foreign=True)
    worker = WorkerState(bench=bench, ranks=ranks, gpu=gpu, memory=memory, files=files, threads=threads)
    opened = Opened(
        build_s=built - start,
        first_step_s=stepped - built,
        # weak scaling: `work` speaks of one rank, and each does as much; strong: it speaks of all together
        items=bench.items * (ranks.count if weak else 1),
        version=bench.version,
        stateful=bench.state is not None,
        draws=draws,
        has_compiler="torch._dynamo" in sys.modules,
        idle_power_w=idle,
    )
    return worker, opened


def settle_block(worker: WorkerState, steps: int) -> None:
    """Get ready for a block: `steps` untimed steps, then the initial state."""
    worker.block = None
    settle(worker.bench, steps)
    worker.before = None if worker.gpu is None else worker.gpu.read()


def run_block(worker: WorkerState, first: int, steps: int) -> dict[str, Any]:
    """Time a block: between the question and the answer there are only the steps and the wait for them."""
    worker.block = time_block(worker.bench, first, steps, worker.ranks.barrier)
    return {"wall_s": worker.block.wall_s}


def end_block(worker: WorkerState) -> dict[str, Any]:
    """What else there is of the last block: its time on the device, clock, power and temperature after it, and the reasons to throttle before or
    after it.
    """
    assert worker.block is not None, "a block was timed"
    collect_again()
    device_s = worker.block.device_s
    if worker.gpu is None:
        return {"device_s": device_s}
    before, after = worker.before, worker.gpu.read()
    bits = [one.throttle_bits for one in (before, after) if one is not None and one.throttle_bits is not None]
    return {
        "device_s": device_s,
        "sm_clock_mhz": after.sm_clock_mhz,
        "power_w": after.power_w,
        "temperature_c": after.temperature_c,
        "throttle_bits": bits[0] | bits[-1] if bits else None,
    }


def deliver(worker: WorkerState, outputs: bool = True, state: bool = False) -> dict[str, Any]:
    """Write what the last step gave, the state, or both into the file of results.

    "problem" says why that can't be done: a result is no plain dense tensor, or handling it would run code of the program.
    """
    assert worker.bench.outputs is not None, "a case has outputs"
    last = None if worker.block is None else worker.block.last
    tensors = dict(worker.bench.outputs(last)) if outputs else {}
    if state and worker.bench.state is not None:
        tensors |= {f"state/{name}": tensor for name, tensor in worker.bench.state().items()}
    tampering = find_tampering()
    for name, tensor in tensors.items():
        if problem := find_problem(tensor) or tampering:
            return {"problem": f"{name!r} {problem}", "slots": []}
    return {"problem": "", "slots": write_tensors(worker.files[1], tensors)}


def refresh(worker: WorkerState, entries: dict[str, list[Slot]]) -> None:
    """Give entries of the ring other contents, from the file of batches."""
    for entry, slots in entries.items():
        worker.bench.refresh(int(entry), partial(read_tensors, worker.files[0], slots))
    wait_for(worker.bench)


def apply(worker: WorkerState, function: str, arguments: dict[str, Any]) -> Any:
    """What `function(state, **arguments)` gives, as JSON has it."""
    return import_function(function)(worker, **arguments)


def run_singles(worker: WorkerState, count: int) -> list[float]:
    """Time single steps."""
    return time_singles(worker.bench, count, worker.ranks.barrier)


def run_placing(worker: WorkerState, count: int) -> list[float]:
    """Time the placing of a batch."""
    return time_placing(worker.bench, count)


def run_energy(worker: WorkerState, steps: int) -> tuple[float, float] | None:
    """Seconds and joules of a window of steps."""
    return None if worker.gpu is None else measure_energy(worker.bench, steps, worker.gpu, worker.ranks.barrier)


def count_steps(worker: WorkerState, steps: int = 1) -> dict[str, Any]:
    """Operators and elements of `steps` steps from the initial state."""
    return vars_of(count_work(worker.bench, steps))


def read_memory(worker: WorkerState) -> dict[str, Any]:
    """The peak since before the build."""
    return vars_of(worker.memory.peak())


def name_files(worker: WorkerState) -> list[str]:
    """Names of the files that this process has loaded of the workload and the kit."""
    return name_loaded(sys.modules)


def read_threads() -> frozenset[int]:
    """Identifiers of the threads that run now."""
    return frozenset(thread.ident for thread in threading.enumerate() if thread.ident is not None)


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a flat dataclass."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


COMMANDS: dict[str, Callable[..., Any]] = {
    "settle": settle_block,
    "block": run_block,
    "end": end_block,
    "deliver": deliver,
    "refresh": refresh,
    "apply": apply,
    "singles": run_singles,
    "placing": run_placing,
    "energy": run_energy,
    "count": count_steps,
    "memory": read_memory,
    "files": name_files,
}


def serve_bench(channel: Channel, files: tuple[int, ...], to_open: dict[str, Any]) -> None:
    """Open what the first message says, then do what is asked until told to close."""
    worker, opened = open_bench(files, **to_open)
    channel.send({"answer": vars_of(opened)})
    while (message := channel.receive()) is not None and (command := message.pop("command")) != "close":
        channel.send({"answer": COMMANDS[command](worker, **message)})
    worker.leave()
