"""Steps one case for Nsight tools: `python -m phasewise.profile.replay PLAN CASE --root ROOT --steps N`.

Only the steps after warm-up lie inside cudaProfilerStart and cudaProfilerStop, each in an NVTX range `step`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

from phasewise.profile.capture import WARMUP_S, Stepper, make_stepper, open_profiled
from phasewise.profile.tools import RANGE
from phasewise.records.plan import VariantPlan
from phasewise.store import read

WARMUP = 3


def replay(plan: VariantPlan, case: str, root: Path, steps: int, warmup: int = WARMUP) -> None:
    """Warm up, then run `steps` steps inside the profiler's range, at the shape that the other profilers see."""
    stepper = make_stepper(open_profiled(plan, case, root))
    on_device = stepper.case.device.type == "cuda"
    warm_up(stepper, warmup)
    if on_device:
        torch.cuda.profiler.start()
    for index in range(steps):
        if on_device:
            torch.cuda.nvtx.range_push(RANGE)
        stepper.run(index)
        if on_device:
            torch.cuda.nvtx.range_pop()
    stepper.case.synchronize()
    if on_device:
        torch.cuda.profiler.stop()
    stepper.case.program.close()


def warm_up(stepper: Stepper, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
    """`most` steps, fewer where those after the first, which may compile, have taken a second."""
    spent = 0.0
    for index in range(most):
        start = clock()
        stepper.run(index)
        stepper.case.synchronize()
        took = clock() - start
        spent += took if index else 0.0
        if spent >= WARMUP_S:
            return


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("case")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1)
    options = parser.parse_args()
    replay(read(options.plan, VariantPlan), options.case, options.root, options.steps)


if __name__ == "__main__":
    main()
