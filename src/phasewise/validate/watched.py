"""The first steps once more, watched: what several guards look at is seen in one run."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from phasewise.judge.trajectory import Named
from phasewise.tensors import all_same_bits, clone, same_bits, tensors_in
from phasewise.validate.trial import Trial

# a thread that the step has left behind gets this long to finish
JOIN_S = 1.0
# and a thread that waits for work all the time, this long to change an output
SETTLE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One step on an entry of the ring, and what it left behind."""

    batch: Named
    placed: Any
    # whether the tensors of the placed batch are as they were
    left_alone: bool
    # what `outputs` gives, which may be the program's own memory
    outputs: Named
    # this, as "output/...", and the tensors of the raw result by their path
    results: Named
    # these, copied before the next step
    copies: Named
    # outputs once the program says that it is done; once the whole device and all threads are; and another time
    early: Named
    late: Named
    again: Named
    # generators of random numbers that moved from before it was placed to after it was read
    drew: tuple[str, ...]


def watch_steps(trial: Trial) -> tuple[Watched, ...]:
    """From the same state and with the same batches as the first time."""
    trial.case.restore()
    return tuple(_watch_step(trial, index) for index in range(trial.steps))


def _watch_step(trial: Trial, index: int) -> Watched:
    case = trial.case
    generators = _read_generators(case.device)
    placed = case.place(index)
    before = clone(tensors_in(placed))
    case.synchronize()
    raw = case.step(placed)
    if case.program.sync is not None:
        case.program.sync()
    early = case.outputs(raw)
    _wait_for_threads(trial.threads)
    case.synchronize()
    late, again = case.outputs(raw), case.outputs(raw)
    outputs = trial.raw_outputs(raw)
    results = tensors_in(raw) | {f"output/{key}": tensor for key, tensor in outputs.items()}
    return Watched(
        batch=case.batches[index % len(case.batches)],
        placed=placed,
        left_alone=all_same_bits(tensors_in(placed), before),
        outputs=outputs,
        results=results,
        copies=clone(results),
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
