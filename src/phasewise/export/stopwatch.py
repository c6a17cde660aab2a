"""The stopwatch of the measure stage, for a bench that has no state to load and no GPU sensors to read."""

from __future__ import annotations

from phasewise.bench.stepper import Bench
from phasewise.bench.timing import settle, time_block


def stopwatch(bench: Bench, steps: int) -> float:
    """Wall seconds of `steps` steps, host to host and synchronised."""
    settle(bench, 0)
    return time_block(bench, 0, steps, lambda: None).wall_s
