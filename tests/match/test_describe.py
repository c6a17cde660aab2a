"""Whatever bounds the best possible time of a call has words."""

import msgspec
import pytest

from phasewise.analyse.floor import find_floor
from phasewise.match.advice import explain_unfit, find_next_step
from phasewise.match.describe import describe_best
from phasewise.records.judgement import Best, Judgement
from phasewise.records.machine import Machine, Peaks
from phasewise.records.prepare import CaseWork
from phasewise.records.validate import CaseValidation, Outcome, TensorError, guard
from phasewise.records.verdict import Failure, Reason, Status
from phasewise.validate.outcomes import failed_case

PEAKS = Peaks(
    copy_bytes_per_s=2e12, cached_copy_bytes_per_s=8e12, matmul_flops_per_s={"float32": 5e13}, launch_s=2e-6, graph_node_s=1e-6
)  # fmt: skip
GPU = Machine(device="h100", kind="cuda", name="a GPU", peaks=PEAKS, cache_bytes=50_000_000)


@pytest.mark.parametrize(
    ("bytes_moved", "flops", "told", "advised"),
    [
        (2e9, 0.0, "1 ms of memory traffic", "moving its bytes alone"),
        (40e6, 0.0, "5 us of traffic in the cache", "moving its bytes alone"),
        (1e3, 5e10, "1 ms of products", "its products alone"),
        (1e3, 0.0, "1 us of one launch", "one launch alone"),
    ],
)
def test_the_best_possible_time_is_told_with_what_bounds_it(bytes_moved, flops, told, advised):
    work = CaseWork(
        case="call", items=1.0, flops=flops, bytes=bytes_moved, working_set_bytes=bytes_moved, dtype="float32"
    )
    floor = find_floor(work, GPU)
    best = Best(seconds=floor.seconds, bound=floor.kind, flops=flops, bytes=bytes_moved)
    judged = Judgement(
        status=Status.FASTER, reason="interval-clears-floor", shape={}, reference="float64", best=best, candidate_s=0.01
    )
    assert told in describe_best(judged)
    assert find_next_step(judged).startswith(advised)


def test_a_tiny_share_of_the_best_possible_time_is_not_told_as_nothing():
    best = Best(seconds=1e-6, bound="memory", flops=0.0, bytes=1e6)
    judged = Judgement(
        status=Status.FASTER, reason="interval-clears-floor", shape={}, reference="float64", best=best, candidate_s=0.01
    )
    assert find_next_step(judged) == "moving its bytes alone would take under 1% of its time: profile what the rest is"


def unfit(*failed: tuple[str, str], message: str = "") -> CaseValidation:
    guards = tuple(guard(name, why) for name, why in failed)
    return CaseValidation(case="call", outcome=Outcome.FAIL, message=message, guards=guards)


def test_of_a_base_with_a_state_the_cause_is_told_and_not_what_follows_from_it():
    told = explain_unfit(
        unfit(
            ("memory-poisoned", "memory is read that was never written"), ("repeated", "it differs from the first time")
        )
    )
    assert told.startswith("repeated: it differs from the first time; a call may leave nothing behind")
    assert "as an argument" in told and "never written" not in told


@pytest.mark.parametrize("cause", ["inputs-unchanged", "no-random-numbers"])
def test_a_base_that_draws_or_writes_to_its_inputs_is_told_only_that(cause):
    assert explain_unfit(unfit(("repeated", "it differs"), (cause, "do otherwise"))) == f"{cause}: do otherwise"


def test_of_a_base_that_is_off_the_ways_out_are_told_and_else_all_that_guards_found():
    assert "get_tolerance()" in explain_unfit(unfit(message="it is off"))
    unequal = TensorError(
        kind="output", name="0", step=0, elements=9, max_abs=None, relative=None, worst=None, outcome=Outcome.FAIL, message="1 of 9"
    )  # fmt: skip
    told = explain_unfit(msgspec.structs.replace(unfit(message="1 of 9"), errors=(unequal,)))
    assert told.startswith("1 of 9; no tolerance covers that") and "get_tolerance" not in told
    died = failed_case("call", Failure(reason=Reason.CRASH, message="it died"))
    assert explain_unfit(died) == "it died"
    assert explain_unfit(unfit(("outputs-apart", "a copy"), ("clock-intact", "leave it"))) == (
        "outputs-apart: a copy; clock-intact: leave it"
    )
