"""Guards that poison: what isn't written anew must show as NaN."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from phasewise.bench.case import BuiltCase, build_case
from phasewise.judge.trajectory import Named
from phasewise.records.validate import Guard, guard, skipped
from phasewise.tensors import category, clone, overlaps, poison, same_bits, tensors_in
from phasewise.validate.trial import PROGRAM_ERRORS, Trial, audit, unlike
from phasewise.validate.watched import Watched

# the CUDA caching allocator serves up to 1 MB from segments of 2 MB, up to 10 MB from segments of 20 MB, and more from
# segments of their own (c10/cuda/CUDACachingAllocator); blocks of these sizes, freed again, are what it hands out next
FREED_BLOCKS = ((1 << 20, 32), (10 << 20, 8), (64 << 20, 4))
# a module whose attribute is a property, which type checkers can't see
DETERMINISTIC: Any = torch.utils.deterministic


@dataclass(frozen=True, kw_only=True)
class Held:
    """A step's inputs and results, which stay in memory."""

    inputs: tuple[torch.Tensor, ...]
    results: Named
    # results of the first step as they were before the next; empty for the others
    copies: dict[str, torch.Tensor]


def note_results(trial: Trial, step: Watched) -> Held:
    """What is to be overwritten, and what is not."""
    inputs = (*step.batch.values(), *tensors_in(step.placed).values())
    return Held(inputs=inputs, results=step.results, copies={} if step.index else clone(step.results))


def outputs_poisoned(trial: Trial, steps: Sequence[Held]) -> Guard:
    """Results that the program still holds are overwritten with NaN; the next step has to compute them again.

    Only results that differed between two steps are poisoned: a constant may well be kept.
    """
    inputs = [tensor for step in steps for tensor in step.inputs]
    one, other = steps[0].copies, steps[-1].results
    differing = [
        path
        for path in one.keys() & other.keys()
        if not same_bits(one[path], other[path]) and category(one[path]) in ("float", "complex")
    ]
    # the step that follows may need the memory
    one.clear()
    for path in differing:
        for step in steps:
            found = step.results[path]
            if found.layout == torch.strided and not any(overlaps(found, tensor) for tensor in inputs):
                poison(found)
    trial.case.restore()
    problem = trial.unlike_first(trial.step(trial.batch(0)), 0)
    return guard(
        "outputs-poisoned",
        problem
        and f"after its results were overwritten, {problem}: they are kept, not computed; return a copy of memory that is read again",
    )


def memory_poisoned(trial: Trial, root: Path) -> Guard:
    """Built and run again with NaN in all uninitialised memory, the program gives the same results."""
    name = "memory-poisoned"
    try:
        with poisoned_memory(trial.case.device):
            problem = _run_poisoned(trial, root)
    except torch.OutOfMemoryError:
        raise
    except PROGRAM_ERRORS as error:
        module = type(error).__module__
        sentence = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        if module.startswith(("torch._dynamo", "torch._inductor")):
            return skipped(name, f"torch.compile can't work on poisoned memory: {sentence}")
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"it raises {sentence} (line {last.lineno} of {Path(last.filename).name})"
    return guard(
        name, problem and f"with NaN in uninitialised memory, {problem}: memory is read that was never written"
    )


@contextmanager
def poisoned_memory(device: torch.device) -> Iterator[None]:
    """Fill what torch.empty and its kin return with NaN or the largest integer, from Python, C++ and backward alike."""
    before = torch.get_deterministic_debug_mode()
    filled = DETERMINISTIC.fill_uninitialized_memory
    _poison_empties()
    if device.type == "cuda":
        _poison_free_memory(device)
    try:
        with warnings.catch_warnings(), _allow_compiling_again():
            # operators without a deterministic form say so; that is not what is looked for here
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_deterministic_debug_mode(before)
        DETERMINISTIC.fill_uninitialized_memory = filled


def _allow_compiling_again() -> AbstractContextManager[object]:
    """Compiled code is compiled anew for deterministic operators, and only so many versions of a function are allowed."""
    compiler: Any = sys.modules.get("torch._dynamo")
    if compiler is None:
        return nullcontext()
    return compiler.config.patch(recompile_limit=2 * compiler.config.recompile_limit)


def _run_poisoned(trial: Trial, root: Path) -> str:
    given = (trial.inputs, [trial.batch(index) for index in range(len(trial.pristine))])
    case = build_case(trial.case.plan, trial.case.planned.case, root, given=given)
    try:
        return _compare(case, trial)
    finally:
        case.program.close()


def _compare(case: BuiltCase, trial: Trial) -> str:
    # `build` sets global flags in both directions, and may have taken this one back
    _poison_empties()
    case.restore()
    for index in range(trial.steps):
        raw = case.step(case.place(index))
        case.synchronize()
        now = audit(case, trial.batch(index), case.outputs(raw))
        problem = unlike(now, trial.first.outputs[index], trial.allowance)
        if problem:
            return f"step {index}: {problem}"
    return ""


def _poison_empties() -> None:
    # `use_deterministic_algorithms` would import the compiler, 1.5 s of every gate
    torch.set_deterministic_debug_mode("warn")
    DETERMINISTIC.fill_uninitialized_memory = True


def _poison_free_memory(device: torch.device) -> None:
    """NaN in blocks that extensions and compiled code get from the caching allocator, as far as a quarter of it allows."""
    budget = torch.cuda.mem_get_info(device)[0] // 4
    blocks = []
    for size, count in FREED_BLOCKS:
        for _ in range(min(count, budget // size)):
            # 0xff in every byte is a NaN in float16, bfloat16, float32 and float64
            blocks.append(torch.full((size,), 0xFF, dtype=torch.uint8, device=device))
            budget -= size
    blocks.clear()
    torch.cuda.synchronize(device)
