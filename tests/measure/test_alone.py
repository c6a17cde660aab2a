"""What a comparison does alone on its device, and what beside others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as change

from measure.fakes import Clock, alone, entrant, tools
from phasewise.measure.sampler import sample_case
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.records.verdict import Reason
from phasewise.run.lane import Crowded

BUDGET = Budget(min_rounds=12, max_rounds=24, min_sets=3, max_sets=3, energy_window_s=2.0)
PAIR = [("parent", "variant")]
TIMED = {"block", "singles", "placing", "energy", "check", "memory"}
FRESH = {"fresh_caches": True, "singles": True, "energy": True}


def run(clock: Clock, *entrants: Any, ahead: bool = False, wait_s: float = 0.0, **more: Any) -> CaseMeasurement:
    pairs = more.pop("pairs", PAIR)
    budget = more.pop("budget", BUDGET)
    return sample_case(
        "case", entrants, pairs, budget, replace(tools(clock), alone=alone(clock, wait_s), **more), ahead=ahead
    )


def split(clock: Clock) -> tuple[set[str], set[str], int]:
    """The calls that were made alone, those beside others, and how often the device was had alone."""
    inside, outside, times, held = set(), set(), 0, False
    for _, call, _ in clock.calls:
        if call in ("enter", "leave"):
            assert held == (call == "leave")
            held = call == "enter"
            times += held
        else:
            (inside if held else outside).add(call)
    assert not held
    return inside, outside, times


@pytest.mark.parametrize(
    ("ahead", "fakes", "times"),
    [
        # a set after the other
        (False, {}, 3),
        # all sets are built with the first, and then timed
        (True, {}, 1),
        # one after the other in processes of their own, after the set that did not fit
        (False, {"most_built": 1}, 6),
        (True, {"luck": 0.05}, 1),
    ],
    ids=["in-sets", "ahead", "in-turn", "ahead-noisy"],
)
def test_all_that_is_timed_is_timed_alone_and_nothing_is_built_meanwhile(
    ahead: bool, fakes: dict[str, Any], times: int
) -> None:
    clock = Clock()
    arms = [entrant(clock, "parent", step_s=2e-3, **fakes), entrant(clock, "variant", entry=FRESH, **fakes)]
    case = run(clock, *arms, ahead=ahead)
    assert all(arm.failure is None for arm in case.arms) and not clock.alive
    inside, outside, entered = split(clock)
    assert inside >= TIMED and not inside & {"start", "wait", "open"}
    assert outside >= {"start", "open", "close"} and not outside & TIMED
    assert entered == times


def test_a_baseline_that_may_make_room_is_warmed_up_before_the_others_are_built() -> None:
    clock = Clock()
    baseline = entrant(clock, "baseline", step_s=5.0, entry={"spare_if_slow": True})
    run(clock, baseline, entrant(clock, "parent"), entrant(clock, "variant", entry=FRESH))
    inside, outside, times = split(clock)
    assert not outside & TIMED and not inside & {"start", "wait", "open"} and times == 1 + 3
    # where all fit, there is no need to
    clock = Clock()
    baseline = entrant(clock, "baseline", entry={"spare_if_slow": True})
    run(clock, baseline, entrant(clock, "parent"), entrant(clock, "variant", entry=FRESH), ahead=True)
    inside, outside, times = split(clock)
    assert not outside & TIMED and not inside & {"start", "wait", "open"} and times == 1


def test_one_that_runs_alone_is_built_for_its_other_sets_once_it_is_known_to_be_fast() -> None:
    for step_s, opened, times in ((1e-3, 3, 2), (2.0, 1, 1)):
        clock = Clock()
        run(clock, entrant(clock, "variant", step_s=step_s, entry=FRESH), pairs=[], ahead=True)
        inside, outside, entered = split(clock)
        assert not outside & TIMED and not inside & {"start", "wait", "open"}
        assert (clock.count("variant", "open"), entered) == (opened, times)


def test_more_sets_than_import_at_a_time_are_built_in_batches() -> None:
    clock = Clock()
    budget = change(BUDGET, min_sets=7, max_sets=7)
    case = run(clock, entrant(clock, "parent"), entrant(clock, "variant", entry=FRESH), budget=budget, ahead=True)
    assert {taken.process_set for taken in case.rounds} == set(range(7))
    inside, outside, times = split(clock)
    # 3, 3 and 1
    assert not outside & TIMED and not inside & {"start", "wait", "open"} and times == 3


def test_waiting_for_others_is_no_time_of_the_comparison() -> None:
    seconds = []
    for wait_s in (0.0, 1000.0):
        clock = Clock()
        arms = [entrant(clock, arm, luck=0.05) for arm in ("parent", "variant")]
        case = run(clock, *arms, wait_s=wait_s, budget=change(BUDGET, max_sets=6, seconds=120.0))
        seconds.append((round(case.seconds, 6), case.stopped, len(case.rounds)))
    assert seconds[0] == seconds[1] and seconds[0][0] > 10


def test_a_failure_leaves_the_device_to_others() -> None:
    for call in ("open", "singles", "block", "check", "memory"):
        clock = Clock()
        run(clock, entrant(clock, "parent"), entrant(clock, "variant", fails_in=call), ahead=True)
        split(clock)
        assert not clock.alive


@pytest.mark.parametrize("call", ["open", "block", "memory"])
def test_memory_that_ran_out_beside_other_jobs_is_no_failure_of_an_arm(call: str) -> None:
    arms = {"parent": {}, "variant": {"fails_in": call, "reason": Reason.OUT_OF_MEMORY}}
    clock = Clock()
    with pytest.raises(Crowded):
        run(clock, *(entrant(clock, arm, **fake) for arm, fake in arms.items()), crowded=True)
    assert not clock.alive and split(clock)
    # without them it is
    clock = Clock()
    case = run(clock, *(entrant(clock, arm, **fake) for arm, fake in arms.items()))
    failures = [arm.failure.reason for arm in case.arms if arm.failure is not None]
    assert failures == [Reason.OUT_OF_MEMORY]
