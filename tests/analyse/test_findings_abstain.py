"""A finding that lacks what it needs says so instead of guessing."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_profile import CPU, GPU, OPERATORS, QUIET, evidence, judge, profile

from phasewise.analyse import CATALOGUE
from phasewise.analyse.diagnose import diagnose
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, CaseProfile, Count, Kernel, Operator
from phasewise.records.verdict import Failure, Reason

replace = msgspec.structs.replace
SMALL = CaseWork(case="main", items=1000.0, flops=1e6, bytes=1e6, working_set_bytes=1e6)
NEEDS_CUDA = (
    "launch-gaps", "host-sync", "copy-in-step", "pageable-copy", "excess-traffic", "matmul-in-fp32", "misaligned-matmul",
    "low-occupancy", "underfilled-device", "throttled",
)  # fmt: skip
NEEDS_KERNELS = (
    "small-kernels",
    "fusible-chain",
    "low-occupancy",
    "underfilled-device",
    "matmul-in-fp32",
    "memory-bound",
)


@pytest.mark.parametrize("name", [str(name) for name, _ in CATALOGUE if name not in ("memory-capacity",)])
def test_without_a_profile_every_finding_abstains(name: str) -> None:
    found = judge(name, None)
    assert (found.outcome, found.seconds, found.gain) == ("abstained", 0.0, None)
    assert "no profile" in found.reason


def test_memory_is_not_judged_without_a_peak() -> None:
    assert judge("memory-capacity", None).outcome == "abstained"


def test_a_failed_profile_gives_its_reason() -> None:
    failed = CaseProfile(case="main", failure=Failure(reason=Reason.CRASH, message="illegal address"))
    assert "illegal address" in judge("launch-gaps", failed).reason


@pytest.mark.parametrize("name", NEEDS_CUDA)
def test_on_a_processor_findings_of_the_device_abstain(name: str) -> None:
    found = judge(name, profile(), CPU)
    assert (found.outcome, found.reason) == ("abstained", "needs a CUDA trace")


@pytest.mark.parametrize("name", NEEDS_KERNELS)
def test_a_replay_without_attribution_hides_kernels(name: str) -> None:
    found = judge(name, profile(graph_replay=True, attributed_by="none"))
    assert found.outcome == "abstained"
    assert "CUDA graph" in found.reason


@pytest.mark.parametrize("name", NEEDS_KERNELS)
def test_the_step_without_its_graphs_stands_in_for_a_replay(name: str) -> None:
    assert judge(name, profile(graph_replay=True, attributed_by="ungraphed")).outcome == "absent"


def test_gaps_of_a_replay_are_never_judged() -> None:
    assert judge("launch-gaps", profile(graph_replay=True, attributed_by="ungraphed")).outcome == "abstained"


@pytest.mark.parametrize("name", ["near-the-roof", "excess-traffic"])
def test_without_declared_work_there_is_no_floor(name: str) -> None:
    assert judge(name, profile(), work=None).outcome == "abstained"


def test_a_step_that_is_captured_in_part_is_judged_by_its_trace() -> None:
    part = profile(
        graph_replay=True,
        breakdown=Breakdown(wall_s=10e-3, kernel_s=4e-3, launch_gap_s=6e-3),
        count=Count(launches=50, graph_launches=1),
    )
    assert judge("launch-gaps", part).outcome == "found"


def test_the_twins_kernels_fill_the_step_that_a_replay_hides() -> None:
    hidden = Breakdown(wall_s=10e-3, kernel_s=0.0, sync_wait_s=10e-3)
    step = profile(graph_replay=True, attributed_by="ungraphed", breakdown=hidden)
    assert judge("host-sync", replace(step, count=Count(synchronisations=3))).outcome == "absent"
    assert evidence(step).time.of("kernel") == pytest.approx(9e-3)


def test_traffic_needs_counters() -> None:
    assert "Nsight Compute" in judge("excess-traffic", profile()).reason


def test_old_tensor_cores_take_no_float32() -> None:
    assert judge("matmul-in-fp32", profile(), replace(GPU, capability=(7, 5))).outcome == "abstained"


def test_shapes_and_grids_that_were_not_recorded_make_abstain() -> None:
    bare = profile(
        kernels=(Kernel(name="k", calls=1, seconds=9e-3, category="gemm", tensor_core=True),),
        operators=(replace(OPERATORS[0], shapes=""),),
    )
    assert judge("misaligned-matmul", bare).outcome == "abstained"
    assert judge("underfilled-device", bare).outcome == "abstained"
    assert judge("low-occupancy", bare).outcome == "abstained"


def test_on_a_processor_a_loop_a_chain_and_churn_are_found() -> None:
    rows = (
        Kernel(name="aten::add", calls=600, seconds=5e-3, category="elementwise"),
        Kernel(name="aten::empty", calls=600, seconds=2e-3, category="other"),
    )
    operators = tuple(Operator(name=row.name, calls=600, self_s=row.seconds, device_s=0.0) for row in rows)
    step = profile(
        breakdown=Breakdown(wall_s=10e-3, kernel_s=7e-3, host_s=3e-3),
        kernels=rows,
        operators=operators,
        count=Count(serial_repeats=600, serial_operator="aten::add"),
    )
    found = {f.finding for f in diagnose(evidence(step, CPU, SMALL)) if f.outcome == "found"}
    assert {"serial-loop", "fusible-chain", "allocator-churn", "small-kernels"} <= found


def test_the_reason_for_silence_names_the_cure_where_peaks_are_missing() -> None:
    found = judge("matmul-in-fp32", profile(breakdown=QUIET), replace(GPU, peaks=None))
    assert "prepare --machine" in found.reason


@pytest.mark.parametrize("name, find", CATALOGUE)
def test_every_finding_is_documented_in_four_parts(name: str, find) -> None:
    text = find.__doc__ or ""
    for part in ("What it sees:", "Why it costs:", "Threshold and its source:", "Advice:"):
        assert part in text, f"{name} lacks '{part}'"
