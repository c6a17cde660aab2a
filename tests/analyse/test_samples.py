"""How steady a step is: spread over sets, two states, and what of it is the GPU's own."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_profile import profile
from synthetic_run import BASELINE, GPU, Phase, Run, make_run

from phasewise.analyse.measures import busy_time, is_host_bound
from phasewise.analyse.samples import is_bistable, range_over_sets
from phasewise.records.base import Interval
from phasewise.records.measure import CaseMeasurement, Round, Sample
from phasewise.records.profile import Breakdown, Profile
from phasewise.records.verdict import Reason, Status


def measured(*sets: list[float]) -> CaseMeasurement:
    """Microseconds a step of each block of one arm."""
    rounds = tuple(
        Round(process_set=number, samples=(Sample(arm="variant", steps=100, wall_s=us * 1e-4),))
        for number, blocks in enumerate(sets)
        for us in blocks
    )
    return CaseMeasurement(case="main", arms=(), rounds=rounds)


def test_the_range_is_of_the_sets_medians() -> None:
    found = range_over_sets(measured([26.0, 25.0, 60.0], [39.0, 38.0, 39.5], [25.5, 26.5, 27.0]), "variant")
    assert found == pytest.approx((26e-6, 39e-6))
    assert range_over_sets(measured([26.0, 25.0]), "variant") is None


@pytest.mark.parametrize(
    ("sets", "found"),
    [
        # a whole process, and spells of some blocks
        (([26.0] * 4, [38.0] * 4, [26.0] * 4), True),
        (([26.0, 26.0, 38.0, 38.0], [26.0, 38.0, 26.0, 26.0], [25.0] * 4), True),
        (([26.0, 27.0, 28.0, 26.0], [27.0] * 4, [28.0] * 4), False),
        # one block in twelve is a disturbance and no state
        (([26.0] * 4, [26.0, 60.0, 26.0, 26.0], [26.0] * 4), False),
        # of a few blocks nothing is told
        (([26.0, 26.0], [38.0, 38.0]), False),
    ],
)
def test_blocks_of_two_states_are_bistable(sets: tuple[list[float], ...], found: bool) -> None:
    assert is_bistable(measured(*sets), "variant") is found


def disturb(run: Run, variant: str) -> Run:
    """Every other set of the variant is half as slow again, whole."""
    record = run.measurements[variant]
    (case,) = record.cases
    slow = tuple(
        msgspec.structs.replace(
            taken,
            samples=tuple(
                msgspec.structs.replace(one, wall_s=1.5 * one.wall_s) if one.arm == "variant" else one
                for one in taken.samples
            ),
        )
        if taken.process_set % 2
        else taken
        for taken in case.rounds
    )
    case = msgspec.structs.replace(case, rounds=slow)
    run.measurements[variant] = msgspec.structs.replace(record, cases=(case,))
    return run


def test_a_comparison_of_such_an_arm_that_is_no_claim_says_so() -> None:
    run = disturb(make_run(Phase(name="a", speedup=1.1)), "01-a")
    row = run.rows()["a"]
    assert (row.verdict.status, row.verdict.reason) == (Status.INCONCLUSIVE, Reason.BISTABLE)
    assert row.range_s is not None and row.range_s[1] > 1.4 * row.range_s[0]


def test_a_gain_that_is_larger_than_its_states_stays_one() -> None:
    run = disturb(make_run(*(Phase(name=name, speedup=20.0, keep=False) for name in "abc")), "01-a")
    assert run.rows()["b"].verdict.status is Status.FASTER
    assert run.rows()["a"].verdict.reason is not Reason.PROCESS_SPREAD


def test_busy_are_kernels_copies_and_collectives_of_a_trace_that_shows_them() -> None:
    parts = Breakdown(wall_s=1e-3, kernel_s=2e-4, copy_s=5e-5, communication_s=2.5e-5, launch_gap_s=7.25e-4)
    assert busy_time(profile(breakdown=parts)) == pytest.approx(2.75e-4)
    assert busy_time(profile(breakdown=parts, attributed_by="none")) is None
    assert busy_time(profile(breakdown=parts, facts={"profiled_at": "Shape(n=1)"})) is None
    assert busy_time(None) is None


def test_a_step_is_host_bound_where_the_gpu_waits_for_more_than_half_of_it() -> None:
    step = Interval(estimate=1e-3, low=9e-4, high=1.1e-3)
    assert is_host_bound(4.9e-4, step) and not is_host_bound(5.1e-4, step)
    assert not is_host_bound(None, step) and not is_host_bound(1e-4, None)


def test_the_row_tells_it_beside_the_wall_time_and_no_ratio_changes() -> None:
    run = make_run(Phase(name="a", speedup=2.0))
    before = run.rows()["00-baseline"]
    parts = Breakdown(wall_s=2e-3, kernel_s=3e-4, launch_gap_s=1.7e-3)
    run.profiles[BASELINE] = Profile(
        workload="toy", run="full-h200", variant=BASELINE, plan="0", machine=GPU.identity, commit="abc",
        cases=(profile(breakdown=parts),),
    )  # fmt: skip
    row = run.rows()["00-baseline"]
    assert (before.busy_s, before.host_bound) == (None, False)
    assert (row.busy_s, row.host_bound) == (3e-4, True)
    assert (row.time_s, row.verdict) == (before.time_s, before.verdict)
