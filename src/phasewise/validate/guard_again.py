"""Guards on repetition: the state comes back, the same work gives the same result, early and late, and nobody draws."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch

from phasewise.records.validate import Guard, guard
from phasewise.tensors import all_same_bits, difference, same_bits
from phasewise.validate.trial import Trial


def state_restored(trial: Trial) -> Guard:
    """`load` brings back the state that every timed block starts from."""
    name = "state-restored"
    program = trial.case.program
    if program.state is None:
        return guard(name, "")
    if program.load is None:
        moved = not all_same_bits(trial.first.initial, trial.first.state or {})
        return guard(name, "a step moves the state and the program has no `load`; give it one" if moved else "")
    trial.case.restore()
    now = trial.case.state()
    for key, before in trial.case.initial.items():
        if key.startswith("grad/"):
            # the next step computes it anew
            continue
        if key not in now:
            return guard(name, f"state {key!r} is gone after `load`")
        if not difference(now[key], before, rtol=trial.allowance.rtol, atol=trial.allowance.atol).within:
            return guard(name, f"state {key!r} is not what `load` was given; copy all of it back")
    return guard(name, "")


def repeated(trial: Trial) -> Guard:
    """The same batches from the same state give the same results as the first time."""
    trial.case.restore()
    problem = ""
    for index in range(trial.steps):
        raw = trial.case.step(trial.case.place(index))
        problem = problem or trial.unlike_first(trial.read(raw, trial.batch(index)), index)
    return guard("repeated", problem and f"{problem}, with the same batches from the same state")


def later_steps(trial: Trial) -> Guard:
    """Results are still right after a number of steps that the program can't know."""
    steps = len(trial.first.outputs)
    plan = trial.case.plan
    # a sequence of its own for each case, so that no step count is safe
    extra = random.Random(f"{plan.seed} {plan.variant} {trial.case.planned.case}").randint(1, steps)
    for index in range(steps + extra):
        trial.step(trial.batch(index))
    trial.case.restore()
    problem = ""
    for index in range(trial.steps):
        problem = problem or trial.unlike_first(trial.step(trial.batch(index)), index)
    return guard("later-steps", problem and f"after {steps + extra} more steps, {problem}")


def no_random_numbers(trial: Trial) -> Guard:
    """A step draws no random numbers: samplers take theirs from `make_inputs`."""
    trial.case.restore()
    # the first step may compile, which draws
    trial.step(trial.batch(0))
    before = _generators(trial.case.device)
    trial.step(trial.batch(1))
    drawn = [name for name, state in _generators(trial.case.device).items() if not same_bits(state, before[name])]
    problem = f"a step drew from {', '.join(drawn)}; take random numbers from make_inputs" if drawn else ""
    return guard("no-random-numbers", problem)


def _generators(device: torch.device) -> dict[str, torch.Tensor]:
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
