"""The floor of a step follows from its declared work and the machine's own measured rates."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_run import CPU, GPU

from phasewise.analyse.floor import find_floor, floor_fraction, is_impossible
from phasewise.records.prepare import CaseWork


def work(**changes: float | str) -> CaseWork:
    plain = CaseWork(case="main", items=100.0, flops=0.0, bytes=4e9, working_set_bytes=4e9)
    return msgspec.structs.replace(plain, **changes)


def test_bytes_move_at_the_measured_copy_rate() -> None:
    floor = find_floor(work(), GPU)
    assert floor is not None
    assert (floor.seconds, floor.kind) == (pytest.approx(1e-3), "memory")


def test_a_set_that_fits_in_the_cache_moves_at_the_cached_rate_unless_it_is_flushed() -> None:
    small = work(bytes=4e7, working_set_bytes=4e7)
    steady, cold = find_floor(small, GPU), find_floor(small, GPU, cold=True)
    assert steady is not None and cold is not None
    assert (steady.kind, cold.kind) == ("cache", "memory")
    assert cold.seconds == pytest.approx(2 * steady.seconds)


def test_operations_bound_the_step_where_they_take_longer_than_the_bytes() -> None:
    floor = find_floor(work(flops=7e12, dtype="bfloat16"), GPU)
    assert floor is not None
    assert (floor.seconds, floor.kind) == (pytest.approx(10e-3), "compute")


def test_a_format_that_the_machine_lacks_counts_as_float32() -> None:
    floor = find_floor(work(bytes=0.0, flops=1e10, dtype="tf32"), CPU)
    assert floor is not None and floor.seconds == pytest.approx(0.1)


def test_without_peaks_or_work_there_is_no_floor() -> None:
    assert find_floor(None, GPU) is None
    assert find_floor(work(), msgspec.structs.replace(GPU, peaks=None)) is None
    assert find_floor(work(bytes=0.0), GPU) is None


def test_a_step_at_105_per_cent_of_the_peak_is_possible_and_beyond_it_is_not() -> None:
    # far more than the cache, so that nothing of it is still there from the step before
    floor = find_floor(work(bytes=4e12, working_set_bytes=4e12), GPU)
    assert floor is not None
    assert floor.least_s == pytest.approx(floor.seconds, rel=1e-4)
    assert not is_impossible(floor, floor.seconds / 1.04)
    assert is_impossible(floor, floor.seconds / 1.06)


def test_what_may_still_lie_in_the_cache_is_not_held_against_a_step() -> None:
    # 1.5 times the cache: two thirds may come at twice the rate
    size = 1.5 * GPU.cache_bytes
    floor = find_floor(work(bytes=size, working_set_bytes=size), GPU)
    assert floor is not None
    assert floor.least_s == pytest.approx(floor.seconds * (2 / 3 / 2 + 1 / 3))
    assert not is_impossible(floor, floor.seconds / 1.4)


def test_a_faster_format_is_not_held_against_a_step_that_declares_float32() -> None:
    floor = find_floor(work(bytes=0.0, flops=1e12), GPU)
    assert floor is not None
    assert not is_impossible(floor, floor.seconds / 10)
    assert is_impossible(floor, floor.seconds / 15)


def test_items_and_ranks_share_the_work_and_not_the_launch() -> None:
    whole = find_floor(work(), GPU)
    # strong scaling: the same items on four devices; weak: four times the items
    strong, weak = (find_floor(work(), GPU, items=items, ranks=4) for items in (100.0, 400.0))
    assert whole is not None and strong is not None and weak is not None
    assert (strong.seconds, weak.seconds) == (pytest.approx(whole.seconds / 4), pytest.approx(whole.seconds))
    assert strong.launch_s == whole.launch_s == GPU.peaks.graph_node_s
    assert floor_fraction(whole, 4e-3) == pytest.approx(0.25)


def test_no_step_takes_less_than_one_launch() -> None:
    floor = find_floor(work(bytes=1e3), GPU)
    assert floor is not None
    assert (floor.seconds, floor.kind) == (pytest.approx(1.3e-6), "launch")
    # nobody is accused by it: a kernel that stays on the device needs none
    assert not is_impossible(floor, 1e-7)


def test_barriers_are_launches_that_wait_for_one_another() -> None:
    floor = find_floor(work(bytes=1e3, barriers=99), GPU)
    assert floor is not None
    assert (floor.seconds, floor.kind) == (pytest.approx(100 * 1.3e-6), "barriers")
    assert find_floor(work(bytes=4e9, barriers=99), GPU).kind == "memory"


def test_where_launches_were_not_measured_they_bound_nothing() -> None:
    floor = find_floor(work(bytes=1e3, barriers=99), CPU)
    assert floor is not None and floor.kind == "memory" and floor.barriers_s == 0.0
