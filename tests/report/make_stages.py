"""Records of single variants, as prepare, plan, validate, profile and export leave them."""

from __future__ import annotations

import math

from phasewise.records.base import Quantity
from phasewise.records.export import Export, ExportFile, ExportResult, ExportStatus
from phasewise.records.machine import Machine, Peaks, Sensors, Tool
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.prepare import CaseWork, Prepared
from phasewise.records.profile import (
    Breakdown,
    Capture,
    CaseProfile,
    Count,
    Counters,
    Kernel,
    Memory,
    MemoryEvent,
    Operator,
    Probe,
    Profile,
    Region,
    SecondOpinion,
    Stretch,
    SystemTimeline,
)
from phasewise.records.validate import (
    CaseValidation,
    Chart,
    CheckResult,
    Guard,
    Outcome,
    Series,
    TensorError,
    Validation,
)
from phasewise.records.verdict import Failure, Reason, Status

KERNEL = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<add_functor<float>>>(int, array<char*, 3ul>)"
COMMON = {
    "workload": "toy_model",
    "run": "full-h200",
    "plan": "0123456789abcdef",
    "machine": "NVIDIA H200",
    "commit": "4f2a9c1",
}


def make_machine() -> Machine:
    peaks = Peaks(
        copy_bytes_per_s=4.1e12, matmul_flops_per_s={"float32": 5.1e13, "tf32": 3.9e14, "bfloat16": 7.6e14},
        cached_copy_bytes_per_s=9.2e12, launch_s=2.1e-6, graph_node_s=0.9e-6, sync_s=6.4e-6,
    )  # fmt: skip
    tools = (
        Tool(name="nsys", available=True, version="2025.5"),
        Tool(
            name="ncu",
            available=False,
            reason="counters need permission",
            cure="set NVreg_RestrictProfilingToAdminUsers=0",
        ),
    )
    return Machine(
        device="h200", kind="cuda", name="NVIDIA H200", gpus=1, capability=(9, 0), memory_bytes=int(141e9), cache_bytes=int(50e6),
        multiprocessors=132, driver="580.65", cuda="13.0", power_limit_w=700.0, cores=16, python="3.12.11",
        versions={"torch": "2.11.0", "triton": "3.6.0"}, tools=tools, peaks=peaks,
    )  # fmt: skip


def make_prepared(cases: tuple[str, ...]) -> Prepared:
    work = tuple(
        CaseWork(case=case, items=4096.0, flops=8e9, bytes=2.4e9, working_set_bytes=2.4e9, item="molecules")
        for case in cases
    )
    return Prepared(workload="toy_model", run="full-h200", folder="data/toy_model", work=work, seconds=3.2)


def make_plan(variant: str) -> VariantPlan:
    return VariantPlan(
        protocol=1, workload="toy_model", source="toy/phases.py", run="full-h200", size="full", device="h200", variant=variant,
        kind=Kind.PHASE, cases=(PlannedCase(case="forward", shape={"atoms": 21}),), tier="moderate",
        allowance=Allowance(rtol=1e-4, atol=1e-5, times_baseline=64, unit="eV", why="Sums of a thousand float32 terms."),
        budget=Budget(), lock="abcdef0123456789", sources="fedcba9876543210",
    )  # fmt: skip


def make_validation(variant: str, status: Status, cases: tuple[str, ...]) -> Validation:
    return Validation(
        variant=variant, tier="moderate", cases=tuple(_validate(variant, status, case) for case in cases), **COMMON
    )


def _validate(variant: str, status: Status, case: str) -> CaseValidation:
    if status == Status.SKIPPED:
        return CaseValidation(case=case, outcome=Outcome.SKIPPED, message="needs 2 GPUs, this machine has 1")
    if status == Status.FAILED:
        failure = Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory: tried to allocate 12.0 GiB")
        return CaseValidation(case=case, outcome=Outcome.FAIL, message="the worker ran out of memory", failure=failure)
    bad = status == Status.INVALID
    outcome = Outcome.FAIL if bad else Outcome.PASS
    errors = tuple(
        TensorError(
            kind=kind, name=name, step=step, elements=4096, max_abs=3.1e-4 if bad else 2.2e-6, relative=3.2e-3 if bad else 4.1e-7,
            worst=3.1 if bad else 0.21, where=(4, 2), times_baseline=1.8, outcome=outcome, message="",
        )
        for kind, name in (("output", "energy"), ("output", "forces"), ("gradient", "grad/embedding.weight"), ("state", "momentum"))
        for step in (1, 2, 3, 4)
    )  # fmt: skip
    drift = Chart(
        title="Drift of the total energy", x_title="time (ps)", y_title="drift (meV/atom)",
        series=(
            Series(label="this variant", x=tuple(range(60)), y=tuple(0.02 * one + 0.1 * math.sin(one / 3) for one in range(60))),
            Series(label="reference", x=tuple(range(60)), y=tuple(None if one == 7 else 0.1 * math.sin(one / 3) for one in range(60))),
        ),
    )  # fmt: skip
    loss = Chart(
        title="Training loss", x_title="step", y_title="loss", log_y=True,
        series=(Series(label="float64", x=tuple(range(30)), y=tuple(math.exp(-one / 9) for one in range(30))),),
    )  # fmt: skip
    checks = (
        CheckResult(
            check="energy-drift", outcome=outcome, message="below 1 meV/ns", chart=drift, seconds=1.2,
            numbers={"drift": Quantity(value=0.31, unit="meV/ns"), "time_to_tolerance": Quantity(value=3.2e-3, unit="s")},
        ),
        CheckResult(check="bitwise-repeatable", outcome=Outcome.PASS, message="100 repeats, same bits", chart=loss),
    )  # fmt: skip
    guards = (
        Guard(guard="poisoned-output", outcome=Outcome.PASS),
        Guard(guard="inputs-left-alone", outcome=outcome, message="input positions changed" if bad else ""),
    )
    fallback = variant == "04-bigger-block"
    return CaseValidation(
        case=case, outcome=Outcome.FALLBACK if fallback else outcome, message="output energy, step 1: 3.1 times the allowance" if bad else "",
        against="reference", sampled_items=256, errors=errors, guards=guards, checks=checks,
        fallbacks=("segment_sum: no GPU, the reference ran",) if fallback else (),
    )  # fmt: skip


def make_profile(variant: str, wall_s: float, cases: tuple[str, ...]) -> Profile:
    return Profile(variant=variant, cases=tuple(_profile(variant, wall_s, case) for case in cases), **COMMON)


def _profile(variant: str, wall_s: float, case: str) -> CaseProfile:
    shares = {
        "kernel_s": 0.34,
        "launch_gap_s": 0.41,
        "sync_wait_s": 0.08,
        "copy_s": 0.05,
        "input_s": 0.02,
        "host_s": 0.10,
    }
    kernels = [
        Kernel(
            name=KERNEL if not index else f"triton_fused_message_{index}_kernel", calls=12.0 / (index + 1), seconds=wall_s * 0.2 / (index + 1),
            category="elementwise" if index % 2 else "gemm", tensor_core=index == 2, grid=(132, 4), block=(256,), registers=64, occupancy=0.75,
        )
        for index in range(18)
    ]  # fmt: skip
    sensors = tuple(
        Sensors(
            at_s=index * 0.1, sm_clock_mhz=1980.0 - (index > 40) * 45, power_w=420 + 60 * math.sin(index / 5), temperature_c=51 + index / 20,
            utilisation_percent=88.0, memory_used_bytes=int(2.1e9 + index * 1e7), throttle_bits=0,
        )
        for index in range(90)
    )  # fmt: skip
    timeline = tuple(
        MemoryEvent(at_s=index * 2e-5, allocated_bytes=int(1e9 + 6e8 * abs(math.sin(index / 7))))
        for index in range(120)
    )
    return CaseProfile(
        case=case, steps=20, breakdown=Breakdown(wall_s=wall_s, **{name: share * wall_s for name, share in shares.items()}),
        stretches=(
            Stretch(part="kernels", kernel=KERNEL, start_s=0.0, seconds=wall_s * 0.2), Stretch(part="kernels", start_s=wall_s * 0.2, seconds=wall_s * 0.14),
            Stretch(part="launch gaps", start_s=wall_s * 0.34, seconds=wall_s * 0.41), Stretch(part="host", start_s=wall_s * 0.75, seconds=wall_s * 0.25),
        ),
        regions=(
            Region(name="message", calls_per_step=3, seconds=wall_s * 0.52, share=0.52, bound=2.08),
            Region(name="update", calls_per_step=3, seconds=wall_s * 0.21, share=0.21, bound=1.27),
        ),
        kernels=tuple(kernels), operators=(Operator(name="aten::index_add_", calls=9, self_s=2.1e-4, device_s=8.8e-4, shapes="[4096, 64]"),),
        count=Count(launches=412, serial_repeats=12, serial_operator="aten::select", copied_bytes=1.2e6),
        graph_replay="graph" in variant or variant[:2] > "05", attributed_by="the step without graphs", overhead=1.31,
        memory=Memory(
            peak_bytes=int(1.7e9), reserved_bytes=int(2.0e9), capacity_bytes=int(141e9), timeline=timeline, largest=(("edge features", int(8e8)),)
        ),
        sensors=sensors,
        counters=(
            Counters(
                kernel="triton_fused_message_1_kernel", launches=3, duration_s=1.1e-4, dram_bytes=3.4e8, dram_percent=76.0, sm_percent=41.0,
                occupancy_percent=62.0, tensor_percent=0.0, l2_hit_percent=38.0, registers=64,
            ),
        ),
        timeline=SystemTimeline(
            kernel_s=0.031, memcpy_s=0.002, api_s=0.064, kernels=8240, steps=20, gpu_busy_share=0.41, top_api=(("cudaLaunchKernel", 0.051),)
        ),
        probes=(Probe(finding="matmul-in-fp32", what="the same products in tf32", now_s=8.1e-4, then_s=3.0e-4, calls=6),),
        second_opinion=SecondOpinion(available=True, version="0.4.3", parts={"Kernel": 1.8e-3, "Other": 3.2e-3}, disagreement=0.014),
        captures=(
            Capture(tool="torch", path="profiles/captures/toy_model/full-h200/trace.json.gz", bytes=812_331),
            Capture(tool="ncu", skipped="counters need permission", cure="run as root"),
        ),
        facts={"autocast": "bfloat16", "graph": True},
    )  # fmt: skip


def make_export(variant: str, case: str) -> Export:
    pairs = [(1.31e-3 + 1e-6 * index, 1.02e-3 + 1e-6 * (index % 3)) for index in range(12)]
    error = TensorError(
        kind="output",
        name="energy",
        step=0,
        elements=4096,
        max_abs=1e-6,
        relative=2e-7,
        worst=0.1,
        outcome=Outcome.PASS,
    )
    return Export(
        variant=variant,
        results=(
            ExportResult(
                case=case, format="aotinductor", status=ExportStatus.OK, errors=(error,), eager_s=tuple(one for one, _ in pairs),
                export_s=tuple(one for _, one in pairs), seconds=31.0,
                files=(ExportFile(path="exports/toy_model/full-h200/model.pt2", sha256="ab" * 32, bytes=4_200_000),),
            ),
            ExportResult(case=case, format="onnx", status=ExportStatus.UNSUPPORTED, reason="custom operator segment_sum has no ONNX form"),
        ),
        signature={"positions": "float32[4096, 3]", "energy": "float32[4096]"}, versions={"torch": "2.11.0"}, **COMMON,
    )  # fmt: skip
