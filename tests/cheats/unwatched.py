"""What a cheat saves where nobody looks: blocks of steps of the honest program and of the cheat, in one process."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from phasewise.bench import worker
from phasewise.bench.case import copy_to_cpu
from phasewise.bench.functions import load_functions

BLOCKS, STEPS, RING = 16, 16, 4
# under the name that a cheat would look for, as the loop below
_now = time.perf_counter
_worked, _true = time.thread_time, time.clock_gettime


@dataclass(frozen=True)
class Loop:
    """What a block steps."""

    step: Callable[[int], Any]
    wait: Callable[[], None] = lambda: None


def compare(payload: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of {source, root}, honest and cheat: seconds a step, as this process tells them, as its thread worked, and as they were."""
    # as in a process that was started to be timed
    sys.argv[0] = str(worker.__file__)
    return {name: _time(payload["source"], Path(payload["root"]), name == "cheat") for name in ("honest", "cheat")}


def _time(source: str, root: Path, cheat: bool) -> dict[str, float]:
    functions = load_functions(source, root)
    ((name, case),) = functions.workload.cases.items()
    shape, device = case.tiny or case.full, torch.device("cpu")
    batches = [functions.make_inputs(name, shape, seed) for seed in range(RING)]
    switches = functions.workload.switches(**(functions.workload.phases[0].sets if cheat else {}))
    program = functions.build(switches, batches[0], name, shape, device)
    place, ring = program.place, [program.place(batch) for batch in batches] if case.inputs == "resident" else None
    initial = {} if program.state is None else copy_to_cpu(program.state())

    def step(index: int) -> Any:
        return program.step(ring[index % RING] if ring else place(batches[index % RING]))

    told, worked, true = [], [], []
    for _ in range(BLOCKS):
        if program.load is not None:
            program.load(initial)
        gc.collect()
        gc.disable()
        # time of the thread: other work on this machine is not counted
        start, began = _worked(), _true(time.CLOCK_MONOTONIC)
        told.append(_time_steps(Loop(step), 0, STEPS)[0] / STEPS)
        worked.append((_worked() - start) / STEPS)
        true.append((_true(time.CLOCK_MONOTONIC) - began) / STEPS)
        gc.enable()
    program.close()
    # the first half may still be on its best behaviour
    found = {"wall_s": told, "worked_s": worked, "true_s": true}
    return {name: min(times[BLOCKS // 2 :]) for name, times in found.items()}


def _time_steps(bench: Loop, first: int, steps: int) -> tuple[float, None]:
    start = _now()
    for index in range(first, first + steps):
        bench.step(index)
    bench.wait()
    return _now() - start, None
