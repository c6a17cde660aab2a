"""Every finding of the catalogue is seen where its trouble is planted, and not where there is none."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_profile import CPU, GEMM, GPU, OPERATORS, OTHER, QUIET, judge, profile

from phasewise.analyse import CATALOGUE
from phasewise.records.finding import FindingId
from phasewise.records.machine import Sensors
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, Count, Counters, Kernel, Memory, Operator, Region
from phasewise.records.verdict import Failure, Reason

replace = msgspec.structs.replace
LOOP = tuple(
    Operator(name=name, calls=500, self_s=1e-3, device_s=1e-3)
    for name in ("aten::select", "aten::norm", "aten::stack_one")
)
ADDS = Kernel(name="add", calls=20, seconds=4e-3, category="elementwise", grid=(264,), occupancy=0.6)

# id -> keyword arguments of `judge` with the trouble planted
PLANTED = {
    "memory-capacity": {"found": profile(memory=Memory(peak_bytes=95, capacity_bytes=100))},
    "input-bound": {"found": profile(breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, input_s=2e-3))},
    "exposed-communication": {"found": profile(breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, communication_s=2e-3))},
    "pageable-copy": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, copy_s=2e-3),
            count=Count(host_to_device=2, pageable_copies=2),
        )
    },
    "copy-in-step": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, copy_s=2e-3),
            count=Count(device_to_host=2, copied_bytes=1e6),
        )
    },
    "host-sync": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=7e-3, sync_wait_s=3e-3), count=Count(synchronisations=3)
        )
    },
    "graph-breaks": {
        "found": profile(breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, host_s=2e-3), count=Count(graph_breaks=3))
    },
    "allocator-churn": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=8e-3, host_s=2e-3),
            operators=(*OPERATORS, Operator(name="aten::empty_like", calls=400, self_s=3e-3, device_s=0.0)),
        )
    },
    "serial-loop": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=3e-3, host_s=5e-3, launch_gap_s=2e-3),
            operators=LOOP,
            kernels=(Kernel(name="norm", calls=500, seconds=3e-3, category="reduction"),),
            count=Count(serial_repeats=500, serial_operator="aten::norm"),
        )
    },
    "optimizer-not-fused": {
        "found": profile(
            regions=(Region(name="Optimizer.step#Adam.step", calls_per_step=1, seconds=2e-3, share=0.2, bound=1.25),)
        )
    },
    "launch-gaps": {
        "found": profile(
            breakdown=Breakdown(wall_s=10e-3, kernel_s=2e-3, launch_gap_s=6e-3, host_s=2e-3), count=Count(launches=400)
        )
    },
    "repeated-work": {
        "found": profile(),
        "work": CaseWork(case="main", items=1, flops=4e8, bytes=1, working_set_bytes=1),
    },
    "matmul-in-fp32": {"found": profile(kernels=(replace(GEMM, tensor_core=False), OTHER))},
    "misaligned-matmul": {
        "found": profile(
            kernels=(replace(GEMM, dtype="bfloat16"), OTHER),
            operators=(replace(OPERATORS[0], shapes="[[64, 33], [33, 64]]"),),
        )
    },
    "fusible-chain": {"found": profile(kernels=(ADDS, OTHER))},
    "small-kernels": {"found": profile(kernels=(replace(ADDS, calls=800, seconds=4e-3), OTHER))},
    "underfilled-device": {"found": profile(kernels=(replace(OTHER, grid=(8, 2)),))},
    "low-occupancy": {"found": profile(kernels=(replace(OTHER, occupancy=0.1), GEMM))},
    "excess-traffic": {
        "found": profile(counters=(Counters(kernel="sort", launches=1, duration_s=5e-3, dram_bytes=4e9),))
    },
    "memory-bound": {
        "found": profile(counters=(Counters(kernel="sort", launches=1, duration_s=5e-3, dram_percent=80.0),))
    },
    "throttled": {
        "found": profile(
            sensors=tuple(
                Sensors(at_s=i, sm_clock_mhz=1900.0 if i == 0 else 1400.0, throttle_bits=0x4) for i in range(10)
            )
        )
    },
    "near-the-roof": {
        "found": profile(),
        "work": CaseWork(case="main", items=1, flops=0.0, bytes=3.6e10, working_set_bytes=1e9),
    },
}


def test_the_catalogue_holds_every_id_once() -> None:
    assert sorted(name for name, _ in CATALOGUE) == sorted(FindingId)
    assert set(PLANTED) == {str(name) for name in FindingId}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_trouble_is_found(name: str) -> None:
    found = judge(name, **PLANTED[name])
    assert found.outcome == "found", found.reason
    assert found.advice and found.evidence
    assert found.threshold is not None
    has_no_seconds = name in ("memory-capacity", "near-the-roof")
    assert (found.gain is None) == has_no_seconds
    if found.gain is not None:
        assert 1.0 <= found.gain.low <= found.gain.estimate <= found.gain.high
        assert found.gain.high > 1.0


@pytest.mark.parametrize(
    "name", [name for name in PLANTED if name not in ("excess-traffic", "throttled", "memory-capacity")]
)
def test_a_quiet_step_has_no_trouble(name: str) -> None:
    assert judge(name, profile()).outcome == "absent"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("excess-traffic", {"counters": (Counters(kernel="sort", launches=1, duration_s=5e-3, dram_bytes=5e8),)}),
        ("throttled", {"sensors": tuple(Sensors(at_s=i, sm_clock_mhz=1900.0, throttle_bits=0) for i in range(10))}),
        ("memory-capacity", {"memory": Memory(peak_bytes=50, capacity_bytes=100)}),
    ],
)
def test_a_reading_below_the_threshold_is_no_trouble(name: str, changes: dict) -> None:
    assert judge(name, profile(**changes)).outcome == "absent"


def test_a_process_out_of_memory_is_found_without_a_profile() -> None:
    failure = Failure(reason=Reason.OUT_OF_MEMORY, message="tried to allocate 537 MB")
    found = judge("memory-capacity", None, failure=failure)
    assert found.outcome == "found"
    assert "537 MB" in found.evidence[0]


def test_the_limit_of_the_case_counts_before_the_device() -> None:
    held = profile(memory=Memory(peak_bytes=95, capacity_bytes=1000))
    assert judge("memory-capacity", held).outcome == "absent"
    assert judge("memory-capacity", held, memory_limit_bytes=100).outcome == "found"


def test_the_gain_of_a_graph_lies_between_the_nodes_and_the_kernels() -> None:
    found = judge("launch-gaps", **PLANTED["launch-gaps"])
    assert found.gain is not None
    nodes = 400 * 1.3e-6
    assert found.gain.high == pytest.approx(10e-3 / (2e-3 + nodes), rel=1e-6)
    # the host's own work may lie outside the captured region
    assert found.gain.low == pytest.approx(10e-3 / (10e-3 - 0.8 * 6e-3), rel=1e-6)


def test_what_launches_cannot_explain_is_other_work_of_the_host() -> None:
    planted = PLANTED["launch-gaps"]["found"]
    host = replace(planted, breakdown=Breakdown(wall_s=10e-3, kernel_s=1e-3, launch_gap_s=1e-3, host_s=8e-3))
    few = judge("launch-gaps", replace(host, count=Count(launches=40)))
    assert few.seconds == pytest.approx(40 * 10 * 4e-6, rel=1e-6)
    assert "idle for 90 % of the step; launches a step: 40, which explain at most" in few.evidence[0]
    assert judge("launch-gaps", replace(host, count=Count(launches=4000))).seconds == pytest.approx(9e-3, rel=1e-6)
    none = replace(planted, breakdown=Breakdown(wall_s=10e-3, kernel_s=1e-3, host_s=9e-3), count=Count(launches=2))
    assert judge("launch-gaps", none).outcome == "absent"


def test_the_gain_of_tensor_cores_follows_the_measured_rates() -> None:
    found = judge("matmul-in-fp32", **PLANTED["matmul-in-fp32"])
    assert found.gain is not None
    assert found.gain.high == pytest.approx(10e-3 / (10e-3 - 4e-3 * (1 - 50 / 700)), rel=1e-6)


def test_no_graph_is_advised_where_the_step_is_one() -> None:
    planted = PLANTED["small-kernels"]["found"]
    assert "graph" in judge("small-kernels", planted).advice
    assert "a graph already" in judge("small-kernels", replace(planted, graph_replay=True)).advice


def test_attention_of_ones_own_is_not_taken_for_float32() -> None:
    own = replace(GEMM, tensor_core=False, category="attention", dtype="")
    assert judge("matmul-in-fp32", profile(kernels=(own, OTHER))).outcome == "absent"
    assert judge("matmul-in-fp32", profile(kernels=(replace(own, dtype="float32"), OTHER))).outcome == "found"


def test_tensor_cores_that_are_no_faster_are_no_finding() -> None:
    assert GPU.peaks is not None
    slow = replace(GPU, peaks=replace(GPU.peaks, matmul_flops_per_s={"float32": 50e12, "tf32": 51e12}))
    assert judge("matmul-in-fp32", PLANTED["matmul-in-fp32"]["found"], slow).outcome == "absent"


def test_a_foreach_optimizer_promises_less_than_one_parameter_at_a_time() -> None:
    planted = PLANTED["optimizer-not-fused"]["found"]
    foreach = replace(
        planted, operators=(*OPERATORS, Operator(name="aten::_foreach_add_", calls=4, self_s=1e-4, device_s=1e-4))
    )
    fused = replace(
        planted, operators=(*OPERATORS, Operator(name="aten::_fused_adam_", calls=1, self_s=1e-4, device_s=1e-4))
    )
    slow, fast = judge("optimizer-not-fused", planted).gain, judge("optimizer-not-fused", foreach).gain
    assert slow is not None and fast is not None and fast.high < slow.high
    assert judge("optimizer-not-fused", fused).outcome == "absent"


def test_constants_built_in_each_step_are_repeated_work() -> None:
    built = Operator(name="aten::arange", calls=50, self_s=2e-3, device_s=0.0)
    step = profile(breakdown=replace(QUIET, kernel_s=6e-3, host_s=4e-3), operators=(*OPERATORS, built))
    assert judge("repeated-work", step).outcome == "found"


def test_equal_calls_on_the_same_tensors_are_repeated_work() -> None:
    tally = Count(repeated_calls=3, repeated_operator="aten::mm", repeated_s=2e-3)
    found = judge("repeated-work", profile(count=tally))
    assert found.outcome == "found"
    assert found.seconds == pytest.approx(2e-3)
    assert "aten::mm" in found.evidence[0]


def test_a_loop_around_replayed_graphs_holds_its_own_time_and_not_that_of_their_kernels() -> None:
    planted = PLANTED["serial-loop"]["found"]
    assert judge("serial-loop", planted).seconds == pytest.approx(10e-3)
    # 3 ms of kernels are the graphs'
    assert judge("serial-loop", replace(planted, graph_replay=True)).seconds == pytest.approx(7e-3)
    fast = replace(planted, breakdown=Breakdown(wall_s=10e-3, kernel_s=9.5e-3, host_s=0.5e-3), graph_replay=True)
    assert judge("serial-loop", fast).outcome == "absent"


@pytest.mark.parametrize(("spent", "held"), [(2e-3, 2e-3), (5.4e-3, 5e-3)])
def test_a_loop_on_a_processor_holds_the_time_that_the_trace_saw(spent: float, held: float) -> None:
    planted = PLANTED["serial-loop"]["found"]
    # by their calls, half of the host's 5 ms and 2 ms of kernels belong to the loop; more kernel time than that it has not
    step = replace(
        planted,
        breakdown=Breakdown(wall_s=10e-3, kernel_s=5e-3, host_s=5e-3),
        operators=(*LOOP, Operator(name="aten::sort", calls=1, self_s=3e-3, device_s=0.0)),
        kernels=(
            replace(planted.kernels[0], seconds=2e-3),
            Kernel(name="aten::sort", calls=1, seconds=3e-3, category="other"),
        ),
        count=replace(planted.count, serial_s=spent),
    )
    assert judge("serial-loop", step, CPU, work=None).seconds == pytest.approx(held)
