"""The referee's process: it makes the batches, holds what is right in its own memory, and compares.

`python -m phasewise.judge.referee READ WRITE`. No code of the candidate is imported here.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from phasewise.bench.import_function import import_function
from phasewise.judge.memory import Plan, map_file, plan_memory, view
from phasewise.judge.serve import serve
from phasewise.judge.values import (
    Tensors,
    describe,
    element_sizes,
    join_arguments,
    load_maker,
    name_results,
    split_arguments,
)
from phasewise.model.workload import DEFAULT_TIERS, Tolerance
from phasewise.records.errors import UserError
from phasewise.records.plan import Allowance
from phasewise.records.validate import Outcome, TensorError
from phasewise.validate.compare import Errors, judge_all

# results of half precision are held to the tier that is meant for it
HALVES = (torch.float16, torch.bfloat16)


@dataclass
class Referee:
    """What the referee keeps between two requests."""

    make: Callable[[int], Any]
    base: Callable[..., Any]
    plain: Mapping[str, Any]
    # seeds of batches whose results are known, and these
    references: dict[int, Tensors]
    # what the reference was computed in
    dtype: str
    inputs: Plan
    outputs: Plan
    allowance: Allowance
    # the base's own error against the reference, by tensor
    yardstick: Errors = field(default_factory=dict)
    batches: mmap.mmap | None = None
    results: dict[str, mmap.mmap] = field(default_factory=dict)
    # seed of the batch in each entry of the ring
    ring: dict[int, int] = field(default_factory=dict)


def open_referee(base: str, seeds: list[int], tier: str) -> tuple[Referee, dict[str, Any]]:
    """Make the batches of `seeds` and their results in float64; what the parent has to know of their sizes."""
    make, function = load_maker(base), import_function(base)
    tensors, plain = split_arguments(make(seeds[0]))
    outputs = name_results(_call(function, tensors, plain))
    sizes = element_sizes(tensors) | element_sizes(outputs)
    references, dtype = _find_references(function, make, seeds)
    if any(
        not torch.isfinite(x).all() for found in references.values() for x in found.values() if x.is_floating_point()
    ):
        raise UserError(f"{base}: its result is not finite; choose inputs for which it is")
    referee = Referee(
        make=make,
        base=function,
        plain=plain,
        references=references,
        dtype=dtype,
        inputs=plan_memory(describe(tensors), sizes),
        outputs=plan_memory(describe(outputs), sizes),
        allowance=_choose_allowance(tier, outputs, doubled=dtype != "float64"),
    )
    told = {
        "inputs": describe(tensors), "outputs": describe(outputs), "sizes": sizes, "plain": plain, "dtype": dtype,
        "tier": msgspec.to_builtins(referee.allowance),
    }  # fmt: skip
    return referee, told


def _find_references(
    function: Callable[..., Any], make: Callable[[int], Any], seeds: list[int]
) -> tuple[dict[int, Tensors], str]:
    """Results of the base in float64 on the CPU; where it can't run in that, in what its inputs are."""
    try:
        return {seed: _refer(function, make(seed), torch.float64) for seed in seeds}, "float64"
    except (RuntimeError, TypeError, NotImplementedError, AssertionError):
        return {seed: _refer(function, make(seed), None) for seed in seeds}, "its own dtype"


def _refer(function: Callable[..., Any], given: Any, dtype: torch.dtype | None) -> Tensors:
    tensors, plain = split_arguments(given)
    if dtype is not None:
        tensors = {name: x.to(dtype) if x.is_floating_point() else x for name, x in tensors.items()}
    return {name: x.detach().clone() for name, x in name_results(_call(function, tensors, plain)).items()}


def _call(function: Callable[..., Any], tensors: Tensors, plain: Mapping[str, Any]) -> Any:
    # a function that writes into its inputs must not change what is kept
    positional, named = join_arguments({name: x.clone() for name, x in tensors.items()}, plain)
    return function(*positional, **named)


def _choose_allowance(tier: str, outputs: Tensors, *, doubled: bool) -> Allowance:
    half = any(x.dtype in HALVES for x in outputs.values())
    chosen: Tolerance = DEFAULT_TIERS["relaxed" if half else tier]
    factor = 2.0 if doubled else 1.0
    return Allowance(rtol=factor * chosen.rtol, atol=factor * chosen.atol, times_baseline=chosen.times_baseline)


def map_memory(referee: Referee, batches: int, results: dict[str, int]) -> None:
    """Take the memory files: one of batches to write, one of results of each player to read."""
    referee.batches = map_file(batches, write=True)
    referee.results = {player: map_file(descriptor, write=False) for player, descriptor in results.items()}


def write_batches(referee: Referee, entries: dict[str, int]) -> None:
    """Fill entries of the ring with the batches of these seeds; the same seed again gives the same contents."""
    assert referee.batches is not None
    for entry, seed in entries.items():
        tensors, _ = split_arguments(referee.make(seed))
        for name, place in view(referee.batches, referee.inputs, int(entry)).items():
            if tensors[name].shape != place.shape or tensors[name].dtype != place.dtype:
                raise UserError(f"input {name!r}: its shape or dtype depends on the seed; it has to stay the same")
            place.copy_(tensors[name])
        referee.ring[int(entry)] = seed


def compare(referee: Referee, player: str, entry: int, against: str | None) -> dict[str, Any]:
    """Hold a player's results on the batch in `entry` against what is known of it, else against the player `against`, which ran
    the same batch: at twice the tier then.
    """
    found = view(referee.results[player], referee.outputs, 0)
    seed = referee.ring[entry]
    known = referee.references.get(seed)
    allowance = referee.allowance
    if known is None:
        assert against is not None, "a batch without a reference is compared with another player"
        known = view(referee.results[against], referee.outputs, 0)
        allowance = msgspec.structs.replace(allowance, rtol=2 * allowance.rtol, atol=2 * allowance.atol)
    yardstick = referee.yardstick if player == "candidate" and seed in referee.references else {}
    errors = judge_all("output", 0, found, known, allowance, yardstick)
    if player == "base" and seed in referee.references:
        for error in errors:
            _keep_worst(referee, error)
    worst = max(errors, key=lambda error: error.worst if error.worst is not None else float("inf"))
    wrong = next((error for error in errors if error.outcome is Outcome.FAIL), None)
    return {
        "worst": worst.worst, "max_abs": worst.max_abs, "name": worst.name, "known": seed in referee.references,
        "wrong": "" if wrong is None else f"result {wrong.name!r}: {wrong.message}",
    }  # fmt: skip


def _keep_worst(referee: Referee, error: TensorError) -> None:
    key = (error.kind, error.name, error.step)
    before = referee.yardstick.get(key)
    if before is None or (error.relative or 0.0) > (before.relative or 0.0):
        referee.yardstick = {**referee.yardstick, key: error}


if __name__ == "__main__":
    serve(
        int(sys.argv[1]), int(sys.argv[2]), open_referee,
        {"map": map_memory, "write": write_batches, "compare": compare},
    )  # fmt: skip
