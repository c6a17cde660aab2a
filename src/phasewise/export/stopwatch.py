"""The stopwatch of the measure stage, for a bench that has no state to load and no GPU sensors to read."""

from __future__ import annotations

from phasewise.bench.stepper import Bench
from phasewise.bench.timing import time_block


def stopwatch(bench: Bench, steps: int) -> float:
    """Wall seconds of `steps` steps, host to host and synchronised."""
    return time_block(bench, steps, settle=0, barrier=lambda: None, gpu=None).wall_s
