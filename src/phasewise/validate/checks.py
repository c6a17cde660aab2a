"""Checks that any workload may name; each takes the same context as a workload's own."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping

import psutil
import torch

from phasewise.model.program import Chart, CheckContext, Checked, Program, Quantity, Series
from phasewise.tensors import all_same_bits, clone, difference

# steps before and after the program is replaced in `resume`
RESUME_STEPS = 2
# steps over which memory is watched, after as many to warm up
MEMORY_STEPS = 24
# the resident set moves in pages and arenas even where nothing leaks: growth below this over MEMORY_STEPS is none
RESIDENT_NOISE_BYTES = 1 << 20
FINITE_SEEDS = 10


def bitwise_repeatable(context: CheckContext) -> Checked:
    """Two fresh programs give bit-equal outputs for the same batch."""
    batch = context.inputs(0)
    one, two = (context.run(context.build(), batch) for _ in range(2))
    if all_same_bits(one, two):
        return Checked(passed=True, message=f"{len(one)} output{'s' * (len(one) != 1)} bit-equal in two builds")
    largest = max((_distance(one[name], two[name]) for name in one.keys() & two.keys()), default=0.0)
    return Checked(
        passed=False,
        message=f"two builds differ by up to {largest:.3g} on the same batch",
        numbers={"largest_difference": Quantity(value=largest)},
    )


def second_call(context: CheckContext) -> Checked:
    """A second call with the same batch, from the same state, gives the result of the first within the tier."""
    program, batch = context.build(), context.inputs(0)
    state = _state(program)
    first = context.run(program, batch)
    _load(program, state)
    problem = _unlike(context, context.run(program, batch), first)
    return Checked(passed=not problem, message=problem or "the second call gives what the first gave")


def resume(context: CheckContext) -> Checked:
    """A fresh program with the state of another one goes on exactly as that one does, within the tier."""
    steady = context.build()
    if steady.state is None or steady.load is None:
        return Checked(passed=True, message="the program has no state to resume from")
    batches = [context.inputs(seed) for seed in range(2 * RESUME_STEPS)]
    for batch in batches[:RESUME_STEPS]:
        context.run(steady, batch)
    saved = _state(steady)
    resumed = context.build()
    _load(resumed, saved)
    for index, batch in enumerate(batches[RESUME_STEPS:], start=1):
        problem = _unlike(context, context.run(resumed, batch), context.run(steady, batch))
        if problem:
            return Checked(passed=False, message=f"{index} steps after resuming, {problem}")
    problem = _unlike(context, _state(resumed), _state(steady))
    return Checked(
        passed=not problem, message=problem or f"{RESUME_STEPS} steps after resuming, outputs and state are the same"
    )


def memory_flat(context: CheckContext) -> Checked:
    """Memory does not grow from step to step: allocated bytes on a GPU, the resident set elsewhere."""
    program, batch = context.build(), context.inputs(0)
    state = _state(program)
    for _ in range(MEMORY_STEPS):
        context.run(program, batch)
    readings = []
    for _ in range(MEMORY_STEPS):
        _load(program, state)
        context.run(program, batch)
        readings.append(_used_bytes(context.device))
    # the lowest of each half: a garbage collection or an arena in between is no growth
    half = MEMORY_STEPS // 2
    growth = min(readings[half:]) - min(readings[:half])
    allowed = 0 if context.device.type == "cuda" else RESIDENT_NOISE_BYTES
    return Checked(
        passed=growth <= allowed,
        message=f"memory {'grows' if growth > allowed else 'stays'}: {growth / half:+.0f} bytes a step",
        numbers={"growth_per_step": Quantity(value=growth / half, unit="B")},
        chart=Chart(
            title="Memory over steps", x_title="step", y_title="bytes",
            series=(Series(label="used", x=tuple(map(float, range(MEMORY_STEPS))), y=tuple(map(float, readings))),),
        ),
    )  # fmt: skip


def finite(context: CheckContext) -> Checked:
    """Outputs are finite for ten seeds."""
    program = context.build()
    state = _state(program)
    for seed in range(FINITE_SEEDS):
        _load(program, state)
        for name, tensor in context.run(program, context.inputs(seed)).items():
            count = int((~torch.isfinite(tensor)).sum())
            if count:
                return Checked(passed=False, message=f"output {name!r} has {count} non-finite values for seed {seed}")
    return Checked(passed=True, message=f"all outputs are finite for {FINITE_SEEDS} seeds")


CORE_CHECKS: Mapping[str, Callable[[CheckContext], Checked]] = {
    function.__name__.replace("_", "-"): function
    for function in (bitwise_repeatable, second_call, resume, memory_flat, finite)
}


def _state(program: Program) -> Mapping[str, torch.Tensor]:
    return {} if program.state is None else clone(program.state())


def _load(program: Program, state: Mapping[str, torch.Tensor]) -> None:
    if program.load is not None:
        program.load(state)


def _unlike(context: CheckContext, now: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> str:
    if now.keys() != expected.keys():
        return f"names differ: {', '.join(sorted(now.keys() ^ expected.keys()))}"
    for name, tensor in now.items():
        found = difference(tensor, expected[name], rtol=context.rtol, atol=context.atol)
        if not found.within:
            return f"{name!r} differs" + (f" by up to {found.max_abs:.3g}" if found.max_abs is not None else "")
    return ""


def _distance(one: torch.Tensor, two: torch.Tensor) -> float:
    return difference(one, two, rtol=0.0, atol=1.0).max_abs or 0.0


def _used_bytes(device: torch.device) -> int:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return torch.cuda.memory_allocated(device)
    # glibc keeps freed memory; what it gives back here is not in use
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    return psutil.Process().memory_info().rss
