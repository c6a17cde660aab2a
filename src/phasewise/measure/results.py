"""Whether functions give the same: each is called in a process of its own, and compared with the first. Imports torch only to compare."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from phasewise.model.workload import DEFAULT_TIERS
from phasewise.tensor_files import make_file, read_tensors
from phasewise.workers.arm import ArmProcesses, Launch
from phasewise.workers.failure import ProcessFailed

if TYPE_CHECKING:
    import torch

# formats for which the tolerances of float32 are too narrow
HALVES = ("torch.float16", "torch.bfloat16")
# two results may each be off by the tier, in opposite directions
BOTH = 2


def find_differences(launches: Mapping[str, Launch], tier: str) -> dict[str, str]:
    """A sentence for each function whose result differs from that of the first by more than the tier allows.

    One that fails is left out: the measurement tells its failure.
    """
    (_, first), *others = launches.items()
    expected = _call(first)
    found = {}
    for name, launch in others:
        given = None if expected is None else _call(launch)
        if given is not None and (problem := compare_results(given, expected or {}, tier)):
            found[name] = problem
    return found


def compare_results(given: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], tier: str) -> str:
    """A sentence on the first difference; "" where there is none."""
    from phasewise.tensors import difference

    if given.keys() != expected.keys():
        return f"it gives {', '.join(given) or 'nothing'}, the first gives {', '.join(expected) or 'nothing'}"
    for name, right in expected.items():
        is_half = str(right.dtype) in HALVES or str(given[name].dtype) in HALVES
        allowed = DEFAULT_TIERS["relaxed" if is_half else tier]
        found = difference(given[name], right, rtol=BOTH * allowed.rtol, atol=BOTH * allowed.atol)
        if not found.within:
            what = found.problem or f"off by {found.max_abs:.3g} at {list(found.where)}"
            return f"{name!r}: {what} (rtol {BOTH * allowed.rtol:g}, atol {BOTH * allowed.atol:g} allowed)"
    return ""


def _call(launch: Launch) -> dict[str, torch.Tensor] | None:
    """What one call gives; None where it fails or gives something else than tensors and numbers."""
    batches, results = make_file("batches"), make_file("results")
    # nothing is timed
    arm = ArmProcesses(replace(launch, fresh=False, files=[(batches, results)]))
    try:
        arm.open()
        arm.block(1, 0)
        (told,) = arm.deliver()
        return None if told.problem else read_tensors(results, told.slots)
    except ProcessFailed:
        return None
    finally:
        arm.close()
        os.close(batches)
        os.close(results)
