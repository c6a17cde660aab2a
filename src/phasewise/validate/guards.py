"""The guards of one case on its open program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import torch

from phasewise.records.validate import Guard, Outcome, skipped
from phasewise.validate.guard_again import later_steps, no_random_numbers, repeated, state_restored
from phasewise.validate.guard_hooks import hooks_only_copy
from phasewise.validate.guard_inputs import inputs_unchanged, outputs_apart, same_batch_memory, same_placed_memory
from phasewise.validate.guard_poison import outputs_poisoned
from phasewise.validate.guard_waiting import clock_intact, outputs_waited_for
from phasewise.validate.trial import PROGRAM_ERRORS, GuardFunction, Trial
from phasewise.validate.watched import Watched, watch_steps
from phasewise.workers.user_frames import find_place

T = TypeVar("T")


# on what two steps have shown, with nothing between these and the last: it spoils what they gave
LOOKS: tuple[Callable[[Trial, Sequence[Watched]], Guard], ...] = (
    inputs_unchanged,
    outputs_apart,
    repeated,
    outputs_waited_for,
    no_random_numbers,
    outputs_poisoned,
)
# that step by themselves
GUARDS: tuple[GuardFunction, ...] = (
    state_restored,
    same_batch_memory,
    same_placed_memory,
    hooks_only_copy,
    later_steps,
    clock_intact,
)


def run_guards(trial: Trial) -> tuple[Guard, ...]:
    """Every guard that needs the open program; `memory_poisoned` builds its own."""
    return (*_run_looks(trial), *(run_guard(function, trial) for function in GUARDS))


def _run_looks(trial: Trial) -> tuple[Guard, ...]:
    steps = attempt("watched", watch_steps, trial)
    if isinstance(steps, Guard):
        return tuple(msgspec.structs.replace(steps, guard=name_of(look)) for look in LOOKS)
    return tuple(run_guard(look, trial, steps) for look in LOOKS)


def run_guard(function: Callable[..., Guard], *given: Any) -> Guard:
    """One guard; if the program breaks it off it fails, if no memory is left for it it is skipped."""
    return attempt(name_of(function), function, *given)


def attempt(name: str, function: Callable[..., T], *given: Any) -> T | Guard:
    """The function's result, or the guard of that name if the program breaks it off."""
    try:
        return function(*given)
    except torch.OutOfMemoryError:
        return skipped(name, "not enough device memory is left for this guard's copies")
    except PROGRAM_ERRORS as error:
        lines, place = str(error).strip().splitlines() or [""], find_place(error)
        where = f" ({place})" if place else ""
        return Guard(
            guard=name, outcome=Outcome.FAIL, message=f"the program raised {type(error).__name__}: {lines[0]}{where}"
        )


def name_of(function: Callable[..., Any]) -> str:
    """The guard's name: its function's, with dashes."""
    inner = function.func if isinstance(function, partial) else function
    return inner.__name__.replace("_", "-")
