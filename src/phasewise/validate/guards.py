"""The guards of one case on its open program, in the order in which they run."""

from __future__ import annotations

from functools import partial

import torch

from phasewise.records.validate import Guard, Outcome, skipped
from phasewise.validate.guard_again import later_steps, no_random_numbers, repeated, state_restored
from phasewise.validate.guard_hooks import hooks_only_copy
from phasewise.validate.guard_inputs import inputs_unchanged, outputs_apart, same_batch_memory, same_placed_memory
from phasewise.validate.guard_poison import outputs_poisoned
from phasewise.validate.guard_waiting import clock_intact, outputs_waited_for
from phasewise.validate.trial import PROGRAM_ERRORS, GuardFunction, Trial
from phasewise.workers.user_frames import find_place

GUARDS: tuple[GuardFunction, ...] = (
    inputs_unchanged,
    state_restored,
    repeated,
    outputs_apart,
    same_batch_memory,
    same_placed_memory,
    outputs_waited_for,
    no_random_numbers,
    hooks_only_copy,
    outputs_poisoned,
    later_steps,
    clock_intact,
)


def run_guards(trial: Trial) -> tuple[Guard, ...]:
    """Every guard that needs the open program; `memory_poisoned` builds its own."""
    return tuple(run_guard(function, trial) for function in GUARDS)


def run_guard(function: GuardFunction, trial: Trial) -> Guard:
    """One guard; if the program breaks it off it fails, if no memory is left for it it is skipped."""
    name = name_of(function)
    try:
        return function(trial)
    except torch.OutOfMemoryError:
        return skipped(name, "not enough device memory is left for this guard's copies")
    except PROGRAM_ERRORS as error:
        lines, place = str(error).strip().splitlines() or [""], find_place(error)
        where = f" ({place})" if place else ""
        return Guard(
            guard=name, outcome=Outcome.FAIL, message=f"the program raised {type(error).__name__}: {lines[0]}{where}"
        )


def name_of(function: GuardFunction) -> str:
    """The guard's name: its function's, with dashes."""
    inner = function.func if isinstance(function, partial) else function
    return inner.__name__.replace("_", "-")
