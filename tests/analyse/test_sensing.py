"""Utilisation is of the step, and not of the idle time before it."""

from __future__ import annotations

import pytest

from phasewise.analyse.measures import utilisation
from phasewise.model.sensing import RAMP_S, settle
from phasewise.records.machine import Sensors
from phasewise.records.profile import CaseProfile


def readings(*busy: float) -> tuple[Sensors, ...]:
    return tuple(Sensors(at_s=0.1 * index, utilisation_percent=one) for index, one in enumerate(busy))


def test_readings_of_the_start_up_do_not_count() -> None:
    profile = CaseProfile(case="forward", sensors=readings(0, 0, 8, 8, 99, 99, 98, 99, 98))
    found = utilisation(profile)
    assert found is not None and found.estimate == pytest.approx(0.985)


def test_a_recording_that_ended_before_is_told_as_it_is() -> None:
    short = readings(0, 50, 60)
    assert short[-1].at_s < RAMP_S and settle(short) == short
