"""The doctor with fake processes: what it calls an alarm, and what it finds."""

from __future__ import annotations

import random
from collections.abc import Iterable

from measure.fakes import Clock, FakeArm, Quiet
from phasewise.measure.doctor import POOL, Repeat, _status, describe_doctor, examine_with
from phasewise.measure.neighbours import Neighbours
from phasewise.measure.pool import draw_pair, fill_pool
from phasewise.measure.progress import Silent
from phasewise.measure.sampling import Watcher
from phasewise.records.machine import Doctor, Machine, Tool
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.stats import estimate_ratio

MACHINE = Machine(
    device="cpu", kind="cpu", name="Some CPU", tools=(Tool(name="ncu", available=False, reason="gone", cure="get it"),)
)


def examine(
    clock: Clock,
    *,
    planted: float | None = None,
    seconds: float = 1e6,
    luck: float = 0.002,
    repeats: int = 20,
    watch: Watcher | None = None,
) -> Doctor:
    def start(units: int) -> FakeArm:
        return FakeArm(clock, f"units {units}", step_s=units * 1e-5, luck=luck, noise=0.005)

    return examine_with(
        start,
        MACHINE,
        repeats=repeats,
        planted=planted,
        seconds=seconds,
        watch=watch or Quiet(),
        progress=Silent(),
        now=clock.now,
    )


def test_a_planted_slowdown_beyond_the_noise_is_found_and_a_program_is_itself() -> None:
    clock = Clock()
    found = examine(clock, planted=0.05)
    assert found.planted_slowdown == 0.05 and found.planted_repeats == 20 and found.planted_found >= 18
    assert found.floor is not None and 0.0 < found.floor < 0.02
    assert found.aa is not None and 0.99 < found.aa.low <= found.aa.estimate <= found.aa.high < 1.01
    assert int(found.notes[0].split()[1]) <= 1 and "20 comparisons" in found.notes[0]
    assert not clock.alive


def test_processes_of_a_pool_are_warmed_up_as_their_device_wants_it() -> None:
    blocks = {}
    for device in ("cpu", "cuda"):
        clock = Clock()
        pool = fill_pool(lambda clock=clock: FakeArm(clock, "one"), 2, device, Budget(), clock.now)
        blocks[device] = clock.count("one", "block")
        assert {entrant.device for entrant in draw_pair(pool, pool, random.Random(0)).entrants.values()} == {device}
    # on a CPU a block's length is known without one
    assert blocks["cpu"] == 0 < blocks["cuda"]


def test_without_a_size_the_planted_slowdown_clears_the_floor_of_this_machine() -> None:
    found = examine(Clock(), luck=0.02)
    assert found.floor is not None and found.planted_slowdown > 2 * found.floor
    assert found.planted_found >= 15


def test_time_that_runs_out_leaves_fewer_comparisons() -> None:
    found = examine(Clock(), planted=0.05, seconds=60.0)
    assert 1 <= found.planted_repeats < 20


def test_time_that_is_over_before_anything_was_compared_is_told() -> None:
    found = examine(Clock(), planted=0.05, seconds=0.0)
    assert found.aa is None and found.planted_repeats == 0
    assert "in 0 of 0 comparisons" in describe_doctor(found) and "0 false alarms in 0 comparisons" in found.notes[0]


def test_the_description_says_what_is_missing_and_the_cure() -> None:
    text = describe_doctor(examine(Clock(), planted=0.05))
    assert "ncu: gone; get it" in text and "planted slow-down of 5.0%" in text and "floor" in text


def test_processes_that_wait_in_a_pool_are_no_neighbours() -> None:
    seen: set[int] = set()

    class Counting(Quiet):
        def look(self, workers: Iterable[int]) -> Neighbours:
            seen.update([len(set(workers))])
            return super().look(workers)

    examine(Clock(), planted=0.05, repeats=2, watch=Counting())
    assert seen == {POOL["cpu"], 2 * POOL["cpu"]}


def test_a_claim_that_is_the_clocks_doing_is_no_alarm() -> None:
    slower = estimate_ratio([[0.019, 0.020, 0.021, 0.020]] * 3)
    still = estimate_ratio([[-0.001, 0.0, 0.001, 0.0]] * 3)
    measured = CaseMeasurement(case="doctor", arms=(), rounds=())
    assert _status(Repeat(measurement=measured, ratio=slower, cycles=None), 0.005) == "FASTER"
    assert _status(Repeat(measurement=measured, ratio=slower, cycles=slower), 0.005) == "FASTER"
    assert _status(Repeat(measurement=measured, ratio=slower, cycles=still), 0.005) == "INCONCLUSIVE"
