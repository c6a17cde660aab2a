"""What a guard works with: the built program, what it gave the first time, and how much a repeat may differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from phasewise.bench.case import BuiltCase
from phasewise.judge.trajectory import Named, Trajectory
from phasewise.records.plan import Allowance
from phasewise.records.validate import Guard
from phasewise.tensors import clone, difference, same_bits

# what a program, or a check, may raise because it is wrong; anything else ends the process and becomes a FAILED record
PROGRAM_ERRORS = (
    RuntimeError, ValueError, TypeError, ArithmeticError, AssertionError, LookupError, AttributeError,
)  # fmt: skip

# guards repeat so many of the first steps: a stale or cached result shows in the second
GUARD_STEPS = 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One open case with its first results; guards may step it as often as they like."""

    case: BuiltCase
    first: Trajectory
    allowance: Allowance
    # what it was built from, and its batches, as this program never saw them
    inputs: Named
    pristine: tuple[Named, ...]
    # that ran before the build
    threads: frozenset[int]

    @property
    def steps(self) -> int:
        return len(self.first.outputs)

    def batch(self, index: int) -> dict[str, torch.Tensor]:
        """A copy of a canonical batch, so that a guard can't spoil another's."""
        return clone(self.pristine[index % len(self.pristine)])

    def place(self, batch: Mapping[str, torch.Tensor]) -> Any:
        assert self.case.program.place is not None, "fill_defaults has run"
        return self.case.program.place(batch)

    def raw_outputs(self, raw: Any) -> Mapping[str, torch.Tensor]:
        """Canonical outputs that may still share memory with the program."""
        assert self.case.program.outputs is not None, "fill_defaults has run"
        return self.case.program.outputs(raw)

    def step(self, batch: Mapping[str, torch.Tensor]) -> Named:
        """Place, step, wait, read."""
        # a step may not change it, and may do so all the same
        given = clone(batch)
        return self.read(self.case.step(self.place(batch)), given)

    def read(self, raw: Any, batch: Named) -> Named:
        """What is compared of a result for that canonical batch: as the judge does."""
        self.case.synchronize()
        return audit(self.case, batch, self.case.outputs(raw))

    def unlike_first(self, now: Named, index: int) -> str:
        """A sentence if `now` is not what step `index` gave the first time; "" if it is."""
        if index and (name := stale(now, self.first.outputs[index - 1], self.first.outputs[index])):
            return f"step {index}: output {name!r} is bit for bit that of the step before"
        problem = unlike(now, self.first.outputs[index], self.allowance)
        return f"step {index}: {problem}" if problem else ""


def audit(case: BuiltCase, batch: Named, outputs: Named) -> Named:
    """What the reference's outputs hold, from a program's own; unordered lists, for one, repeat in no other form."""
    own = case.functions.audit
    return outputs if own is None else own(batch, outputs, case.planned.case, case.shape)


def unlike(now: Named, before: Named, allowance: Allowance) -> str:
    """A sentence if two results of the same work differ by more than the tier allows; "" if they don't."""
    if now.keys() != before.keys():
        return f"the outputs are {', '.join(now) or 'none'}, they were {', '.join(before) or 'none'}"
    for name, tensor in now.items():
        # most programs repeat their bits, and to compare those takes a hundredth of the time
        if same_bits(tensor, before[name]):
            continue
        found = difference(tensor, before[name], rtol=allowance.rtol, atol=allowance.atol)
        if not found.within:
            size = "" if found.max_abs is None else f" by up to {found.max_abs:.3g}"
            return f"output {name!r} differs{size} from the first time" + (
                f" ({found.problem})" if found.problem else ""
            )
    return ""


def stale(now: Named, before: Named, expected: Named) -> str:
    """Name of an output that is still the one before, where another was due; "" where there is none."""
    for name in now.keys() & before.keys() & expected.keys():
        if same_bits(now[name], before[name]) and not same_bits(expected[name], before[name]):
            return name
    return ""


GuardFunction = Callable[[Trial], Guard]
