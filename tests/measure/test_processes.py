"""Processes that are started before they are wanted."""

from __future__ import annotations

import pytest

from measure.fakes import Clock, FakeLaunch, entrant, plan_fakes
from phasewise.measure.entrant import Entrant
from phasewise.measure.processes import start_ahead


def test_all_import_before_anything_is_timed_and_no_more_than_asked_for() -> None:
    clock = Clock()
    one, two, three = comparisons = [
        plan_fakes(*(entrant(clock, f"{case}-{arm}") for arm in ("parent", "variant")))
        for case in ("one", "two", "three")
    ]
    with start_ahead(comparisons, sets=3, most=14):
        # three sets of both arms of the first two; a part of the third would only make the others wait
        assert clock.started == 12
        waited = [clock.count(arm, "wait") for processes in comparisons for arm in processes.entrants]
        assert waited == [3, 3, 3, 3, 0, 0]
        for number in range(3):
            two.start("two-parent", number, 3 - number)
            two.close()
        three.start("three-parent", 0, 1)
        assert clock.started == 13
        # beyond those that were started ahead there are fresh ones
        two.start("two-parent", 3, 1)
        assert clock.started == 14
    assert not clock.alive and not one.running


def test_each_set_has_the_process_that_was_planned_for_it() -> None:
    clock = Clock()
    planned = (FakeLaunch(clock, "first", {"fails_in": "wait"}), FakeLaunch(clock, "later", {}))
    processes = plan_fakes(Entrant(arm="variant", variant="v", device="cpu", launches=planned))
    with start_ahead([processes], sets=2, most=8):
        # the first could not import, and is not replaced by that of the second set
        for number, name in enumerate(("first", "later", "later")):
            processes.start("variant", number, 1)
            assert processes.running["variant"].name == name
            processes.close()
    assert clock.started == 4


def test_a_group_is_started_in_its_turn_for_it_holds_a_port() -> None:
    clock = Clock()
    with start_ahead([plan_fakes(entrant(clock, "variant", entry={"ranks": 2}))], sets=3, most=8):
        assert clock.started == 0


def test_what_stops_a_measurement_ends_them_all() -> None:
    clock = Clock()
    ahead = [plan_fakes(entrant(clock, "variant"))]
    with pytest.raises(KeyboardInterrupt), start_ahead(ahead, sets=3, most=8):
        raise KeyboardInterrupt
    assert clock.started == 3 and not clock.alive
