"""The judge's own process, of one case: it makes the batches, holds what is right in its memory, and compares.

`python -m phasewise.judge.referee READ WRITE BATCHES RESULTS...`. It builds no variant: of the workload it runs the inputs, the
reference and the audit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.functions import Batch, Functions, load_functions
from phasewise.bench.worker import open_channel
from phasewise.judge.compare import Errors, by_tensor, judge_all
from phasewise.judge.progress import check_progress
from phasewise.judge.reference import Reference, is_other_problem, load_reference
from phasewise.judge.sample import take
from phasewise.judge.trajectory import Named, Trajectory
from phasewise.model.data import use_data_folder
from phasewise.model.layout import Layout
from phasewise.model.workload import Shape
from phasewise.records.plan import Allowance, VariantPlan
from phasewise.records.validate import CaseValidation, TensorError
from phasewise.tensor_files import Slot, read_tensors, write_tensors
from phasewise.tensors import count_bytes

STATE = "state/"
# batches of the reference are kept, and not made again, where they take no more together
KEPT_BYTES = 1 << 31


@dataclass(kw_only=True)
class Referee:
    """What it keeps between two requests."""

    plan: VariantPlan
    case: str
    shape: Shape
    functions: Functions
    # None where a peer solves another problem
    reference: Reference | None
    # the baseline's own errors
    baseline: Errors
    # batches to write, then results of each arm to read
    batches: int
    results: Sequence[int]
    # the batch in each entry of the ring
    ring: dict[int, Batch] = field(default_factory=dict)
    # the reference's batches by number, where they are kept
    known: dict[int, Batch] = field(default_factory=dict)
    # whole results that were kept by name and step, for what lies beyond the reference's sample
    kept: dict[tuple[str, int], Named] = field(default_factory=dict)


def open_referee(
    files: tuple[int, ...], plan: dict[str, Any], case: str, root: str, baseline: dict[str, Any] | None
) -> tuple[Referee, dict[str, Any]]:
    """Load or make the reference; what the parent has to know of it."""
    planned = msgspec.convert(plan, VariantPlan)
    use_data_folder(Layout(Path(root)).data(planned.workload))
    functions, wanted = load_functions(planned.source, Path(root)), planned.case(case)
    shape = Shape(**wanted.shape)
    inputs = functions.make_inputs(case, shape, planned.seed)
    reference = load_reference(planned, wanted, functions, Path(root), inputs)
    referee = Referee(
        plan=planned, case=case, shape=shape, functions=functions,
        reference=None if isinstance(reference, str) else reference,
        baseline=by_tensor(None if baseline is None else msgspec.convert(baseline, CaseValidation)),
        batches=files[0], results=files[1:],
    )  # fmt: skip
    if isinstance(reference, str):
        return referee, {"skip": reference}
    count = len(reference.seeds)
    start = time.perf_counter()
    slots = write_batches(referee, {str(entry): entry for entry in range(count)})
    batch_s = (time.perf_counter() - start) / count
    if sum(count_bytes(batch.values()) for batch in referee.ring.values()) <= KEPT_BYTES:
        referee.known = dict(referee.ring)
    return referee, {
        "skip": "", "other_problem": is_other_problem(planned, functions), "entries": count, "stateful": reference.is_stateful,
        "items": None if reference.items is None else len(reference.items),
        "batch_s": batch_s, "slots": [slots[str(entry)] for entry in range(count)], "inputs": write_tensors(files[0], inputs, count),
    }  # fmt: skip


def write_batches(referee: Referee, entries: dict[str, int]) -> dict[str, list[Slot]]:
    """As `make_batches`, and write them where the arms see them."""
    make_batches(referee, entries)
    return put_batches(referee, list(map(int, entries)))


def make_batches(referee: Referee, entries: dict[str, int]) -> None:
    """Fill entries of the ring with these batches of the reference, or with those of other seeds where the number is negative.

    No arm sees them before they are put.
    """
    assert referee.reference is not None
    for entry, number in entries.items():
        batch = referee.known.get(number)
        if batch is None:
            seed = referee.reference.seeds[number] if number >= 0 else -number
            batch = referee.functions.make_inputs(referee.case, referee.shape, seed)
        referee.ring[int(entry)] = batch


def put_batches(referee: Referee, entries: list[int]) -> dict[str, list[Slot]]:
    """Write what these entries of the ring hold where the arms see it."""
    return {str(entry): write_tensors(referee.batches, referee.ring[entry], entry) for entry in entries}


def compare(
    referee: Referee, arm: int, slots: list[Slot], entry: int, step: int, allowance: dict[str, Any], keep: str = ""
) -> list[dict[str, Any]]:
    """Errors of what an arm's last step gave on the batch in `entry`, against the reference's step number `step`.

    `keep` keeps the whole results under that name and the step.
    """
    assert referee.reference is not None
    found = read_tensors(referee.results[arm], slots)
    if keep:
        referee.kept[keep, step] = found
    allowed = msgspec.convert(allowance, Allowance)
    reference, items = referee.reference.trajectory, referee.reference.items
    outputs, state = _split(_audit(referee, found, entry))
    expected = reference.outputs[step]
    errors = judge_all("output", step, take(outputs, expected, items), expected, allowed, referee.baseline)
    if state and reference.state is not None:
        last = take(state, reference.state, items)
        errors += judge_all("state", step, last, reference.state, allowed, referee.baseline)
    return msgspec.to_builtins(errors)


def compare_with_kept(
    referee: Referee, arm: int, slots: list[Slot], entry: int, step: int, allowance: dict[str, Any], name: str
) -> list[dict[str, Any]]:
    """As `compare`, against the results that were kept under `name`, at twice the tier."""
    allowed = msgspec.convert(allowance, Allowance)
    found = read_tensors(referee.results[arm], slots)
    return _compare_two(referee, found, referee.kept[name, step], entry, step, _add(allowed, allowed), name)


def compare_with_arm(
    referee: Referee, arm: int, slots: list[Slot], entry: int, allowance: dict[str, Any], other: dict[str, Any]
) -> list[dict[str, Any]]:
    """As `compare`, against what another arm, {arm, slots, allowance, name}, gave for the same batch, at the sum of both tiers."""
    allowed = _add(msgspec.convert(allowance, Allowance), msgspec.convert(other["allowance"], Allowance))
    found = read_tensors(referee.results[arm], slots)
    theirs = read_tensors(referee.results[other["arm"]], other["slots"])
    return _compare_two(referee, found, theirs, entry, 0, allowed, other["name"])


def _compare_two(
    referee: Referee, found: Named, theirs: Named, entry: int, step: int, allowance: Allowance, name: str
) -> list[dict[str, Any]]:
    outputs, state = _split(_audit(referee, found, entry))
    expected, their_state = _split(_audit(referee, theirs, entry))
    errors = judge_all("output", step, outputs, expected, allowance, {})
    if state and their_state:
        errors += judge_all("state", step, state, their_state, allowance, {})
    return msgspec.to_builtins(tuple(_name(error, name) for error in errors))


def _add(one: Allowance, other: Allowance) -> Allowance:
    """What two results may differ by: each may be off by its own, in opposite directions."""
    return msgspec.structs.replace(one, rtol=one.rtol + other.rtol, atol=one.atol + other.atol)


def keep_initial(referee: Referee, arm: int, slots: list[Slot], keep: str) -> None:
    """Keep the state before the first step."""
    referee.kept[keep, -1] = read_tensors(referee.results[arm], slots)


def follow_progress(referee: Referee, name: str) -> list[dict[str, Any]]:
    """Guards on kept results that don't follow the inputs, or a state that doesn't follow the reference's."""
    assert referee.reference is not None
    steps = sorted(step for kept, step in referee.kept if kept == name and step >= 0)
    if not steps:
        # it delivered nothing that can be compared, which is refused by itself
        return []
    parts = [_split(referee.kept[name, step]) for step in steps]
    initial = _split(referee.kept.get((name, -1), {}))[1]
    seen = Trajectory(outputs=tuple(outputs for outputs, _ in parts), initial=initial, state=parts[-1][1] or None)
    reference = replace(referee.reference.trajectory, outputs=referee.reference.trajectory.outputs[: len(steps)])
    return msgspec.to_builtins(check_progress(seen, reference, referee.plan.allowance))


def _audit(referee: Referee, found: Named, entry: int) -> Named:
    """What is compared with the reference's outputs: what a program gave, or what the workload's `audit` makes of it."""
    if referee.functions.audit is None:
        return found
    outputs, state = _split(found)
    audited = referee.functions.audit(referee.ring[entry], outputs, referee.case, referee.shape)
    return {**audited, **{STATE + name: tensor for name, tensor in state.items()}}


def _split(found: Named) -> tuple[Named, Named]:
    outputs = {name: tensor for name, tensor in found.items() if not name.startswith(STATE)}
    state = {name.removeprefix(STATE): tensor for name, tensor in found.items() if name.startswith(STATE)}
    return outputs, state


def _name(error: TensorError, other: str) -> TensorError:
    against = f"against {other}"
    return msgspec.structs.replace(error, message=f"{against}: {error.message}" if error.message else against)


COMMANDS: dict[str, Callable[..., Any]] = {
    "write": write_batches,
    "make": make_batches,
    "put": put_batches,
    "compare": compare,
    "compare_with_kept": compare_with_kept,
    "compare_with_arm": compare_with_arm,
    "initial": keep_initial,
    "progress": follow_progress,
}


def main(read_fd: int, write_fd: int, *files: int) -> None:
    """Open a case, then answer about it until told to close."""
    channel = open_channel(read_fd, write_fd)
    message = channel.receive()
    if message is None or message.pop("command") == "close":
        return
    # a reference may differentiate, comparisons don't
    torch.set_grad_enabled(False)
    with torch.enable_grad():
        referee, told = open_referee(files, **message)
    channel.send({"answer": told})
    while (message := channel.receive()) is not None and (command := message.pop("command")) != "close":
        channel.send({"answer": COMMANDS[command](referee, **message)})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
