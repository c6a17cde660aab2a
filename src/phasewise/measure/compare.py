"""The harness on its own: which of these functions is faster, and by how much."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasewise.environment import name_device
from phasewise.measure.entrant import Entrant
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.processes import Processes
from phasewise.measure.progress import Progress, to_stderr
from phasewise.measure.results import find_differences
from phasewise.measure.sampler import sample_case, was_killed
from phasewise.measure.sampling import Tools
from phasewise.model.arms import find_arm
from phasewise.model.ratios import dropped_share, estimate_speedup, step_times
from phasewise.model.seconds import format_seconds
from phasewise.model.workload import DEFAULT_TIERS
from phasewise.records.errors import UserError
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.records.verdict import Reason
from phasewise.stats import RatioEstimate, p50
from phasewise.workers.arm import launch_function
from phasewise.workers.failure import TRIES
from phasewise.workers.process import refuse_in_worker

Function = str | Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was measured, and the speed-up of each function over the first."""

    # name of the function that the others are compared with
    reference: str
    # time of the reference over time of the function; None where one of them failed, or its result differs
    ratios: Mapping[str, RatioEstimate | None]
    # of those whose result is not that of the reference, how it differs
    differences: Mapping[str, str]
    # every raw sample, in the order in which it was taken
    measurement: CaseMeasurement
    budget: Budget

    def describe(self) -> str:
        """A line for each function: its time a step, and its speed-up over the first with the 95 % interval."""
        return "\n".join([*(self._describe_arm(arm.arm) for arm in self.measurement.arms), *self._describe_doubts()])

    def __str__(self) -> str:
        return self.describe()

    def _describe_arm(self, name: str) -> str:
        arm = find_arm(self.measurement, name)
        assert arm is not None
        if arm.failure is not None:
            return f"{name}: {arm.failure.reason}, {arm.failure.message}"
        times = [time for taken in step_times(self.measurement, name) for time in taken]
        untimed = f"{name}: not timed: nothing was left to compare it with"
        line = f"{name}: {format_seconds(p50(times))} a call" if times else untimed
        if name in self.differences:
            return f"{line}, and its result is not that of {self.reference}: {self.differences[name]}"
        ratio = self.ratios.get(name)
        if ratio is None:
            return line
        return (
            f"{line}, {ratio.estimate:.3f} times as fast as {self.reference} [{ratio.low:.3f}, {ratio.high:.3f}], "
            f"{ratio.rounds} rounds in {ratio.sets} process sets"
        )

    def _describe_doubts(self) -> list[str]:
        found = []
        if any(ratio is not None and ratio.sets == 1 for ratio in self.ratios.values()):
            found.append("one process set only: the interval holds for these processes; raise max_sets")
        share = dropped_share(self.measurement)
        if share > 0:
            found.append(f"{share:.0%} of the rounds were dropped because clocks fell or throttling changed")
        if any(taken.neighbours for taken in self.measurement.rounds):
            found.append("other processes were on the GPU")
        return found


def compare(
    functions: Mapping[str, Function],
    *,
    setup: Function | None = None,
    arguments: Mapping[str, Any] | None = None,
    device: str = "auto",
    budget: Budget | None = None,
    tier: str | None = "moderate",
    progress: Progress | None = None,
) -> Comparison:
    """Time functions against the first of them, in interleaved rounds of processes of their own.

    A function is one step: it is named as "pkg.module:function" or "file.py:function", or is defined at the top level of a
    module. With `setup`, it is called with what `setup(**arguments)` returned once in its process (a tuple is
    spread out); `arguments` are plain JSON values. `device` is "auto", "cpu" or "cuda": what is waited for after each block.

    Each is called once first, and its result, tensors and numbers however nested, is compared with that of the first at twice the `tier`:
    one that differs gets no ratio. None compares nothing. `progress` goes to standard error unless told otherwise.

    Raises:
        UserError: unknown tier; fewer than two functions, or one that does not exist or that another process can't import; or the call
            comes from one of its own workers, which import the file that calls it.
    """
    refuse_in_worker("compare()")
    if tier is not None and tier not in DEFAULT_TIERS:
        raise UserError(f"compare: tier {tier!r} is unknown; {', '.join(DEFAULT_TIERS)} and None are allowed")
    if len(functions) < 2:
        raise UserError(f"compare: {len(functions)} function given; give two or more, the first is compared with")
    budget = Budget() if budget is None else budget
    progress = to_stderr() if progress is None else progress
    prepare = "" if setup is None else name_function(setup)
    entrants = {}
    for name, function in functions.items():
        launch = launch_function(
            name_function(function),
            setup=prepare,
            arguments=arguments,
            device=device,
            environment={"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)},
            timeout_s=budget.timeout_s,
            fresh=budget.max_sets > 1,
        )
        entrants[name] = Entrant(arm=name, variant=name, device=name_device(device), launches=(launch,))
    reference, *others = functions

    differences: Mapping[str, str] = {}
    if tier is not None:
        progress.update("compare: one call of each, for its result")
        differences = find_differences({name: one.launches[0] for name, one in entrants.items()}, tier)
    for number in range(TRIES):
        measured = sample_case(
            "compare",
            Processes(entrants),
            [(reference, other) for other in others],
            budget,
            Tools(watch=watch_machine(device), progress=progress),
            ends_if_killed=number + 1 < TRIES,
        )
        if not was_killed(measured):
            break
    for arm in measured.arms:
        if arm.failure is not None and arm.failure.reason is Reason.BAD_PROGRAM:
            raise UserError(f"compare: {arm.arm}: {arm.failure.message}")
    ratios = {
        other: None if other in differences else estimate_speedup(measured, budget, slower=reference, faster=other)
        for other in others
    }
    return Comparison(reference=reference, ratios=ratios, differences=differences, measurement=measured, budget=budget)


def name_function(function: Function) -> str:
    """How a worker process imports `function`.

    Raises:
        UserError: it is a lambda, a closure or a method, which no other process can import.
    """
    if isinstance(function, str):
        source, _, name = function.rpartition(":")
        if not source or not name:
            raise UserError(
                f"compare: {function!r} names no function; write 'pkg.module:function' or 'file.py:function'"
            )
        return f"{Path(source).resolve()}:{name}" if source.endswith(".py") else function
    name = getattr(function, "__qualname__", type(function).__name__)
    if not inspect.isfunction(function) or "<" in name or "." in name:
        raise UserError(
            f"compare: {name} can't be imported by another process; define a function at the top level of a module, or "
            "name it as 'pkg.module:function' or 'file.py:function'"
        )
    if function.__module__ == "__main__":
        return f"{Path(inspect.getfile(function)).resolve()}:{name}"
    return f"{function.__module__}:{name}"
