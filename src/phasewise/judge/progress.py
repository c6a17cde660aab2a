"""Guards on results that don't follow the inputs, or a state that doesn't follow the reference's. Nothing is run."""

from __future__ import annotations

import math

import torch

from phasewise.judge.compare import BASELINE_FLOOR, signal
from phasewise.judge.trajectory import Trajectory
from phasewise.records.plan import Allowance
from phasewise.records.validate import Guard, guard, skipped
from phasewise.tensors import category, same_bits

# half a step is missing where the state went this part of one step too short or too far
HALF_A_STEP = 0.5
# rounding averages out over so many elements; fewer may stray further
MANY = 16


def check_progress(seen: Trajectory, reference: Trajectory, allowance: Allowance) -> tuple[Guard, ...]:
    """Both guards."""
    return fresh_inputs(seen, reference, allowance), state_moves(seen, reference)


def fresh_inputs(seen: Trajectory, reference: Trajectory, allowance: Allowance) -> Guard:
    """Where the reference's output changes from step to step, so does the variant's."""
    for step in range(1, len(seen.outputs)):
        before, now = seen.outputs[step - 1], seen.outputs[step]
        for name in now.keys() & before.keys() & reference.outputs[step].keys():
            old, new = reference.outputs[step - 1].get(name), reference.outputs[step][name]
            if old is None or not _moves(old, new, allowance):
                continue
            if same_bits(before[name], now[name]):
                return guard(
                    "fresh-inputs",
                    f"output {name!r} is the same in steps {step - 1} and {step}, the reference's is not",
                )
    return guard("fresh-inputs", "")


def state_moves(seen: Trajectory, reference: Trajectory) -> Guard:
    """The state goes as far as the reference's along its way, to within half a step, or more for tensors of fewer than MANY elements."""
    name = "state-moves"
    if seen.state is None:
        return guard(name, "")
    if reference.state is None:
        return skipped(name, "the reference has no `state`, so this program's can't be compared; give it one")
    for key, end in reference.state.items():
        part = _part_of_the_way(seen, reference, key, end)
        slack = HALF_A_STEP / len(seen.outputs) * max(1.0, math.sqrt(MANY / max(1, end.numel())))
        if part is not None and not abs(part - 1) <= slack:
            return guard(
                name,
                f"state {key!r} goes {part:.2f} of the reference's way in {len(seen.outputs)} steps: work is left out "
                "or done twice",
            )
    return guard(name, "")


def _part_of_the_way(seen: Trajectory, reference: Trajectory, key: str, end: torch.Tensor) -> float | None:
    """<move, reference's move> / |reference's move|^2: averages out rounding; None where there is nothing to tell."""
    start, first = reference.initial.get(key), seen.initial.get(key)
    last = (seen.state or {}).get(key)
    if key.startswith("grad/") or start is None or first is None or last is None:
        return None
    if category(end) != "float" or not start.shape == end.shape == first.shape == last.shape:
        return None
    way = (end.double() - start.double()).flatten()
    move = (last.double() - first.double()).flatten()
    # rounding of three steps may be a tenth of a way this short; one that is not finite says nothing either
    if not bool(torch.isfinite(way).all()) or float(way.norm()) <= 4 * BASELINE_FLOOR * float(end.double().norm()):
        return None
    if not bool(torch.isfinite(move).all()):
        return float("nan")
    return float(move @ way / (way @ way))


def _moves(old: torch.Tensor, new: torch.Tensor, allowance: Allowance) -> bool:
    if old.shape != new.shape:
        return True
    if category(new) not in ("float", "complex"):
        return not torch.equal(old, new)
    if new.numel() == 0:
        return False
    change = float((new - old).abs().max())
    return change > signal(float(new.abs().max()), allowance)
