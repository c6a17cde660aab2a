"""Whatever bounds the best possible time of a call has words."""

import pytest

from phasewise.analyse.floor import find_floor
from phasewise.match.advice import find_next_step
from phasewise.match.describe import describe_best
from phasewise.records.judgement import Best, Judgement
from phasewise.records.machine import Machine, Peaks
from phasewise.records.prepare import CaseWork
from phasewise.records.verdict import Status

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
