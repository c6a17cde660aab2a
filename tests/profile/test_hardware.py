import itertools
import threading

import pytest

from phasewise.profile.hardware import watch
from phasewise.records.machine import Sensors


def test_the_step_is_repeated_for_the_window_and_read_meanwhile():
    ticks, reads, works = itertools.count(), itertools.count(), []
    first = threading.Event()

    def read():
        at = next(reads)
        first.set()
        return Sensors(at_s=float(at))

    def work():
        assert first.wait(5)
        works.append(1)

    readings = watch(work, read, window_s=4, period_s=0.0001, clock=lambda: float(next(ticks)))
    # the clock ticks once at the start and once before each further turn
    assert len(works) == 4
    assert [reading.at_s for reading in readings] == [float(index) for index in range(len(readings))]
    assert readings


def test_work_that_fails_ends_the_reading():
    def fail():
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        watch(fail, lambda: Sensors(at_s=0.0), window_s=10, period_s=0.0001)
    assert all(thread.name != "sensors" for thread in threading.enumerate())
