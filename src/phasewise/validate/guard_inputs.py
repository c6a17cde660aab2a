"""Guards on inputs: left alone, apart from the outputs, and read again when their content changes."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.records.validate import Guard, guard, skipped
from phasewise.tensors import overlaps, overwrite, same_bits, tensors_in
from phasewise.validate.trial import Trial
from phasewise.validate.watched import Watched


def inputs_unchanged(trial: Trial, steps: Sequence[Watched]) -> Guard:
    """A step may consume what `place` made, never the canonical batch; where inputs are resident, not even that."""
    name = "inputs-unchanged"
    for index, step in enumerate(steps):
        pristine = trial.pristine[index]
        changed = [
            key for key, tensor in pristine.items() if key not in step.batch or not same_bits(step.batch[key], tensor)
        ]
        if changed:
            return guard(name, f"step {index} changed the canonical batch in {', '.join(changed)}; work on a copy")
        if trial.case.planned.inputs == "resident" and not step.left_alone:
            return guard(
                name, f"step {index} changed the placed batch, which is resident and used again; work on a copy"
            )
    return guard(name, "")


def outputs_apart(trial: Trial, steps: Sequence[Watched]) -> Guard:
    """Outputs share no memory with the inputs, unless these are the program's own static buffers."""
    for step in steps:
        others = [tensor for other in steps if other is not step for tensor in tensors_in(other.placed).values()]
        # memory that `place` hands out again and again belongs to the program
        inputs = {
            f"placed{path}": tensor
            for path, tensor in tensors_in(step.placed).items()
            if not any(overlaps(tensor, other) for other in others)
        }
        inputs |= {f"batch/{key}": tensor for key, tensor in step.batch.items()}
        for key, output in step.outputs.items():
            for path, tensor in inputs.items():
                if overlaps(output, tensor):
                    return guard("outputs-apart", f"output {key!r} shares memory with the input {path}; return a copy")
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
