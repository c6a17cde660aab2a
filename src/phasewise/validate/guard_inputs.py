"""Guards on inputs: left alone, apart from the outputs, and read again when their content changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from phasewise.records.validate import Guard, guard, skipped
from phasewise.tensors import overlaps, overwrite, same_bits, tensors_in
from phasewise.validate.trial import Trial
from phasewise.validate.watched import Watched


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What a step's outputs share memory with."""

    # its memory is not handed out again while this is kept
    placed: Any
    # (output, tensor of the placed batch or None for one of the canonical batch, its name)
    pairs: tuple[tuple[str, torch.Tensor | None, str], ...]


def note_left_alone(trial: Trial, step: Watched) -> bool:
    """Whether the placed batch is as it was."""
    return step.left_alone


def inputs_unchanged(trial: Trial, left_alone: Sequence[bool]) -> Guard:
    """A step may consume what `place` made, never the canonical batch; where inputs are resident, not even that."""
    name = "inputs-unchanged"
    ring = trial.case.batches
    for index, alone in enumerate(left_alone):
        pristine, batch = trial.pristine[index], ring[index % len(ring)]
        changed = [key for key, tensor in pristine.items() if key not in batch or not same_bits(batch[key], tensor)]
        if changed:
            return guard(name, f"step {index} changed the canonical batch in {', '.join(changed)}; work on a copy")
        if not alone:
            return guard(
                name, f"step {index} changed the placed batch, which is resident and used again; work on a copy"
            )
    return guard(name, "")


def note_sharing(trial: Trial, step: Watched) -> Sharing:
    """Outputs that share memory with an input of the step."""
    inputs: list[tuple[torch.Tensor, torch.Tensor | None, str]] = [
        (tensor, tensor, f"placed{path}") for path, tensor in tensors_in(step.placed).items()
    ]
    inputs += [(tensor, None, f"batch/{key}") for key, tensor in step.batch.items()]
    pairs = tuple(
        (key, placed, name)
        for key, output in step.outputs.items()
        for tensor, placed, name in inputs
        if overlaps(output, tensor)
    )
    return Sharing(placed=step.placed, pairs=pairs)


def outputs_apart(trial: Trial, sharings: Sequence[Sharing]) -> Guard:
    """Outputs share no memory with the inputs, unless these are the program's own static buffers."""
    for sharing in sharings:
        others = [tensor for other in sharings if other is not sharing for tensor in tensors_in(other.placed).values()]
        for key, placed, name in sharing.pairs:
            # memory that `place` hands out again and again belongs to the program
            if placed is None or not any(overlaps(placed, other) for other in others):
                return guard("outputs-apart", f"output {key!r} shares memory with the input {name}; return a copy")
    return guard("outputs-apart", "")


def same_batch_memory(trial: Trial) -> Guard:
    """New values in the same canonical batch give new results: nothing is cached by identity or address."""
    name = "same-batch-memory"
    trial.case.restore()
    batch = trial.batch(0)
    for index in range(trial.steps):
        problem = overwrite(batch, trial.batch(index))
        if problem:
            return skipped(name, problem)
        problem = trial.unlike_first(trial.step(batch), index)
        if problem:
            return guard(
                name, f"{problem}, though the batch in that memory had changed: something is cached by identity"
            )
    return guard(name, "")


def same_placed_memory(trial: Trial) -> Guard:
    """New values in the same placed batch give new results."""
    name = "same-placed-memory"
    trial.case.restore()
    # kept alive, as `place` may hand out views
    batch = trial.batch(0)
    placed = trial.place(batch)
    for index in range(trial.steps):
        batch_now = trial.batch(index)
        problem = overwrite(placed, trial.place(batch_now))
        if problem:
            return skipped(name, problem)
        problem = trial.unlike_first(trial.read(trial.case.step(placed), batch_now), index)
        if problem:
            return guard(
                name, f"{problem}, though the placed batch had changed in its memory: something is cached by address"
            )
    return guard(name, "")
