"""Figures of one variant in one case, with intervals where samples give them."""

from __future__ import annotations

import math

import numpy as np

from phasewise.analyse.compare import Estimates, Key, to_interval
from phasewise.analyse.diagnose import PROFILED_AT
from phasewise.model.sensing import settle
from phasewise.records.base import Interval, Seconds
from phasewise.records.measure import Arm, Window
from phasewise.records.profile import CaseProfile
from phasewise.records.validate import CaseValidation
from phasewise.stats.ratio import t_quantile

LEVEL = 0.95
# a step of which the GPU is busy for less is bounded by the host
HOST_BOUND = 0.5


def step_time(estimates: Estimates, key: Key) -> Interval | None:
    """Seconds a step."""
    found = estimates.times.get(key)
    if found is None:
        return None
    return to_interval(found) or Interval(estimate=found.estimate, low=found.estimate, high=found.estimate)


def energy_per_item(arm: Arm | None) -> Interval | None:
    """Joules an item over all windows, with Student's interval over them; of one window the estimate alone."""
    windows = [window for window in arm.energy if window.steps > 0] if arm is not None else []
    if arm is None or not windows:
        return None
    return mean_interval([_joules_per_item(window, arm.items) for window in windows])


def utilisation(profile: CaseProfile | None) -> Interval | None:
    """Share of the time for which the device was busy: by NVML's readings after the start-up, by Nsight Systems, else by the trace."""
    if profile is None:
        return None
    readings = [r.utilisation_percent / 100 for r in settle(profile.sensors) if r.utilisation_percent is not None]
    if readings:
        return mean_interval(readings)
    timeline, breakdown = profile.timeline, profile.breakdown
    if timeline is not None and timeline.gpu_busy_share is not None:
        return _exact(timeline.gpu_busy_share)
    if breakdown is not None and breakdown.wall_s > 0.0:
        return _exact(breakdown.kernel_s / breakdown.wall_s)
    return None


def busy_time(profile: CaseProfile | None) -> Seconds | None:
    """Seconds a step for which the GPU ran kernels, copies or collectives, by CUPTI's trace of a block that is no part of any
    ratio; None where the trace does not show them, or is of another shape.
    """
    if profile is None or profile.breakdown is None or profile.attributed_by == "none" or PROFILED_AT in profile.facts:
        return None
    parts = profile.breakdown
    return parts.kernel_s + parts.copy_s + parts.communication_s


def is_host_bound(busy: Seconds | None, step: Interval | None) -> bool:
    """Whether the GPU waits for the host for most of a step."""
    return busy is not None and step is not None and busy < HOST_BOUND * step.estimate


def counted(profile: CaseProfile | None, name: str) -> Interval | None:
    """What the trace of a step counts under this name, without an error; None where no trace was read, which counts nothing."""
    return None if profile is None or profile.breakdown is None else _exact(getattr(profile.count, name))


def check_number(validation: CaseValidation | None, name: str) -> tuple[Interval, str] | None:
    """A number that a check returned, with its bounds where it gave some, and its unit."""
    for check in validation.checks if validation is not None else ():
        found = check.numbers.get(name)
        if found is not None and found.value is not None:
            low, high = (found.value if end is None else end for end in (found.low, found.high))
            return Interval(estimate=found.value, low=low, high=high), found.unit
    return None


def worst_error(validation: CaseValidation | None) -> tuple[float | None, float | None]:
    """Largest error over its allowance, and largest relative error of a named tensor."""
    errors = validation.errors if validation is not None else ()
    worst = [error.worst for error in errors if error.worst is not None]
    relative = [error.relative for error in errors if error.relative is not None]
    return max(worst, default=None), max(relative, default=None)


def steps_to_pay(
    cold: Seconds | None, parent: Seconds | None, step: Interval | None, before: Interval | None
) -> float | None:
    """Steps after which a longer start is made up for; None where it is not longer, or never is."""
    if cold is None or parent is None or step is None or before is None:
        return None
    longer, gained = cold - parent, before.estimate - step.estimate
    return longer / gained if longer > 0.0 and gained > 0.0 else None


def mean_interval(values: list[float]) -> Interval:
    """Mean with Student's 95 % interval; a single value has none and stands for itself."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return _exact(mean)
    half = t_quantile(1.0 - LEVEL, len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(estimate=mean, low=mean - half, high=mean + half)


def _joules_per_item(window: Window, items: float) -> float:
    return window.joules / window.steps / items


def _exact(value: float) -> Interval:
    return Interval(estimate=value, low=value, high=value)
