"""What a worker is asked of its own program by the gate: guards and checks. They can turn a verdict red, never green."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import BuiltCase
from phasewise.bench.commands import WorkerState
from phasewise.bench.stepper import Bench
from phasewise.judge.trajectory import follow
from phasewise.model.program import Program
from phasewise.tensor_files import Slot, read_tensors
from phasewise.tensors import clone
from phasewise.validate.guard_poison import memory_poisoned
from phasewise.validate.guards import run_guard, run_guards
from phasewise.validate.run_checks import run_checks
from phasewise.validate.trial import GUARD_STEPS, Trial, audit


def guard_case(worker: WorkerState, root: str, ring: list[list[Slot]]) -> dict[str, Any]:
    """Guards of the program that is open, then the checks, which build their own; {guards, checks, fallbacks, peak_memory_bytes}.

    The program is closed then: what follows would not fit beside it.
    """
    case = worker.bench.case
    assert case is not None, "a function has no gate"
    *batches, inputs = (read_tensors(worker.files[0], slots) for slots in ring)
    seen = follow(case, min(GUARD_STEPS, len(batches)))
    first = replace(
        seen,
        outputs=tuple(audit(case, clone(batch), one) for batch, one in zip(batches, seen.outputs, strict=False)),
    )
    trial = Trial(
        case=case,
        first=first,
        allowance=case.plan.allowance,
        inputs=inputs,
        pristine=tuple(batches),
        threads=worker.threads,
    )
    guards = run_guards(trial)
    fallbacks, foreign = tuple(case.program.fallbacks), case.program.sync is not None
    worker.bench.close()
    # this one's memory is given back before others are built
    worker.bench = Bench(device=case.device, step=_closed)
    case = release(case)
    trial = replace(trial, case=case)
    gc.collect()
    if case.device.type == "cuda":
        torch.cuda.empty_cache()
    checks = run_checks(case, Path(root))
    # last, since compiled code may keep what it saw
    guards += (run_guard(partial(memory_poisoned, root=Path(root)), trial),)
    return {
        "guards": msgspec.to_builtins(guards),
        "checks": msgspec.to_builtins(checks),
        "fallbacks": list(fallbacks),
        # a library beside torch takes its own
        "peak_memory_bytes": torch.cuda.max_memory_reserved() if case.device.type == "cuda" and not foreign else None,
    }


def release(case: BuiltCase) -> BuiltCase:
    """The case without its program, whose memory is free once the caller holds no other reference."""
    return replace(case, program=Program(step=_closed), initial={})


def _closed(placed: Any) -> Any:
    raise AssertionError("the program was closed")
