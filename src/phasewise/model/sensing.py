"""Which readings of the device's sensors tell of the step, and not of its start."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.records.machine import Sensors

# a reading is a mean of the time before it, up to half a second in our GPUs: earlier ones hold the idle time before the first step
RAMP_S = 0.5


def settle(sensors: Sequence[Sensors]) -> tuple[Sensors, ...]:
    """The readings after the start-up; all of them where the recording ended before that."""
    settled = tuple(one for one in sensors if one.at_s >= RAMP_S)
    return settled or tuple(sensors)
