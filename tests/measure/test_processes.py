"""Processes that are started before they are wanted."""

from __future__ import annotations

import pytest

from measure.fakes import Clock, entrant
from phasewise.measure.processes import start_ahead


def test_all_import_before_anything_is_timed_and_no_more_than_asked_for() -> None:
    clock = Clock()
    comparisons = {
        case: [entrant(clock, f"{case}-{arm}") for arm in ("parent", "variant")] for case in ("one", "two", "three")
    }
    with start_ahead(comparisons, sets=3, most=14) as ahead:
        # three sets of both arms of the first two; a part of the third would only make the others wait
        assert clock.started == 12
        waited = [clock.count(f"{case}-{arm}", "wait") for case in comparisons for arm in ("parent", "variant")]
        assert waited == [3, 3, 3, 3, 0, 0]
        drivers = [ahead[case][0].start() for case in ("two", "two", "two", "three")]
        assert clock.started == 13
        # beyond those that were started ahead there are fresh ones
        drivers.append(ahead["two"][0].start())
        assert clock.started == 14
        for driver in drivers:
            driver.close()
    assert not clock.alive


def test_one_that_could_not_import_is_started_again_in_its_turn() -> None:
    clock = Clock()
    fails = entrant(clock, "variant", fails_in="wait", fails_at=2)
    with start_ahead({"one": [fails]}, sets=2, most=8) as ahead:
        drivers = [ahead["one"][0].start() for _ in range(2)]
        assert clock.started == 3
    assert len(drivers) == 2


def test_a_group_is_started_in_its_turn_for_it_holds_a_port() -> None:
    clock = Clock()
    with start_ahead({"one": [entrant(clock, "variant", entry={"ranks": 2})]}, sets=3, most=8):
        assert clock.started == 0


def test_what_stops_a_measurement_ends_them_all() -> None:
    clock = Clock()
    with pytest.raises(KeyboardInterrupt), start_ahead({"one": [entrant(clock, "variant")]}, sets=3, most=8):
        raise KeyboardInterrupt
    assert clock.started == 3 and not clock.alive
