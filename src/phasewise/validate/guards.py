"""The guards of one case on its open program, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import torch

from phasewise.records.validate import Guard, Outcome, skipped
from phasewise.validate.guard_again import (
    later_steps,
    no_random_numbers,
    note_difference,
    note_draws,
    repeated,
    state_restored,
)
from phasewise.validate.guard_hooks import hooks_only_copy
from phasewise.validate.guard_inputs import (
    inputs_unchanged,
    note_left_alone,
    note_sharing,
    outputs_apart,
    same_batch_memory,
    same_placed_memory,
)
from phasewise.validate.guard_poison import note_results, outputs_poisoned
from phasewise.validate.guard_waiting import clock_intact, note_readings, outputs_waited_for
from phasewise.validate.trial import PROGRAM_ERRORS, GuardFunction, Trial
from phasewise.validate.watched import Look, Watched, watch_step
from phasewise.workers.user_frames import find_place

T = TypeVar("T")
# what a guard has kept of the steps so far, or how it ended before the last
Notes = tuple[Any, ...] | Guard

# on what two steps have shown, with nothing between these and the last: it spoils what they gave
LOOKS: tuple[Look, ...] = (
    Look(note=note_left_alone, conclude=inputs_unchanged, copies_placed=True),
    Look(note=note_sharing, conclude=outputs_apart),
    Look(note=note_difference, conclude=repeated),
    Look(note=note_readings, conclude=outputs_waited_for),
    Look(note=note_draws, conclude=no_random_numbers),
    Look(note=note_results, conclude=outputs_poisoned),
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
    """All on the same steps; one for which no memory is left there, by itself on steps of its own, beside which nothing else is kept."""
    shared = _look(trial, LOOKS)
    return tuple(
        _look(trial, (look,))[0] if found.outcome is Outcome.SKIPPED else found
        for look, found in zip(LOOKS, shared, strict=True)
    )


def _look(trial: Trial, looks: Sequence[Look]) -> list[Guard]:
    """Make the steps, and have each guard note what it needs of one before the next."""
    notes: list[Notes] = [() for _ in looks]
    for index in range(trial.steps):
        found = attempt("watched", _note_step, trial, index, looks, notes)
        if isinstance(found, Guard):
            return [msgspec.structs.replace(found, guard=name_of(look.conclude)) for look in looks]
        notes = found
    return [
        noted if isinstance(noted, Guard) else run_guard(look.conclude, trial, noted)
        for look, noted in zip(looks, notes, strict=True)
    ]


def _note_step(trial: Trial, index: int, looks: Sequence[Look], notes: Sequence[Notes]) -> list[Notes]:
    """The notes with those of one more step, of which nothing else is kept."""
    copy_placed = trial.case.planned.inputs == "resident" and any(look.copies_placed for look in looks)
    step = watch_step(trial, index, copy_placed=copy_placed)
    return [
        noted if isinstance(noted, Guard) else attempt(name_of(look.conclude), _note, look, trial, step, noted)
        for look, noted in zip(looks, notes, strict=True)
    ]


def _note(look: Look, trial: Trial, step: Watched, noted: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*noted, look.note(trial, step))


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
