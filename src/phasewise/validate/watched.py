"""The first steps once more, watched: what several guards look at is seen in one run, one step at a time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from phasewise.judge.trajectory import Named
from phasewise.records.validate import Guard
from phasewise.tensors import all_same_bits, clone, same_bits, tensors_in
from phasewise.validate.trial import Trial

# a thread that the step has left behind gets this long to finish
JOIN_S = 1.0
# and a thread that waits for work all the time, this long to change an output
SETTLE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One step on an entry of the ring, and what it left behind."""

    index: int
    batch: Named
    placed: Any
    # whether the tensors of the placed batch are as they were; True where nobody asks
    left_alone: bool
    # what `outputs` gives, which may be the program's own memory
    outputs: Named
    # this, as "output/...", and the tensors of the raw result by their path
    results: Named
    # outputs once the program says that it is done; once the whole device and all threads are; and another time
    early: Named
    late: Named
    again: Named
    # generators of random numbers that moved from before it was placed to after it was read
    drew: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A guard on watched steps: what it keeps of each, which is gone before the next but for this, and what it makes of all."""

    note: Callable[[Trial, Watched], Any]
    conclude: Callable[[Trial, Sequence[Any]], Guard]
    # it asks whether a resident batch was left alone, for which that is copied
    copies_placed: bool = False


def watch_step(trial: Trial, index: int, *, copy_placed: bool) -> Watched:
    """Step `index` from the initial state, with the same batch as the first time; the steps before have been made."""
    case = trial.case
    if index == 0:
        case.restore()
    generators = _read_generators(case.device)
    placed = case.place(index)
    before = clone(tensors_in(placed)) if copy_placed else None
    case.synchronize()
    raw = case.step(placed)
    if case.program.sync is not None:
        case.program.sync()
    early = case.outputs(raw)
    _wait_for_threads(trial.threads)
    case.synchronize()
    late, again = case.outputs(raw), case.outputs(raw)
    outputs = trial.raw_outputs(raw)
    return Watched(
        index=index,
        batch=case.batches[index % len(case.batches)],
        placed=placed,
        left_alone=before is None or all_same_bits(tensors_in(placed), before),
        outputs=outputs,
        results=tensors_in(raw) | {f"output/{key}": tensor for key, tensor in outputs.items()},
        early=early,
        late=late,
        again=again,
        drew=tuple(
            name for name, state in _read_generators(case.device).items() if not same_bits(state, generators[name])
        ),
    )


def _wait_for_threads(known: frozenset[int]) -> None:
    """Until those that were not there before the build have ended, or have had time enough."""
    left = [thread for thread in threading.enumerate() if thread.ident not in known]
    deadline = time.monotonic() + JOIN_S
    for thread in left:
        if thread is not threading.current_thread():
            # a worker of a pool never ends: it gets the time to settle
            thread.join(timeout=min(SETTLE_S, max(0.0, deadline - time.monotonic())))
    if left:
        time.sleep(SETTLE_S)


def _read_generators(device: torch.device) -> dict[str, torch.Tensor]:
    # (name, words, position, ...), of the generator that numpy.random's functions share
    shared: Any = numpy.random.get_state()
    words, position = shared[1:3]
    states = {
        "torch's generator": torch.get_rng_state(),
        "the module random": torch.tensor(random.getstate()[1]),
        "numpy.random": torch.tensor([*words.tolist(), position]),
    }
    if device.type == "cuda":
        states["torch's CUDA generator"] = torch.cuda.get_rng_state(device)
    return states
