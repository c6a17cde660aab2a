"""One case profiled in this process: everything but the Nsight tools, which start processes of their own."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import build_case
from phasewise.bench.no_gc import no_gc
from phasewise.bench.sensors import open_gpu
from phasewise.profile.capture import (
    MOST_OPERATORS,
    Stepper,
    TooLong,
    capture_trace,
    choose_steps,
    make_stepper,
    open_profiled,
    refuse_long_step,
    time_untraced,
    warm_up,
)
from phasewise.profile.counts import count_events, count_memory_events, hides_kernels
from phasewise.profile.facts import describe_program, read_compiler
from phasewise.profile.hardware import watch
from phasewise.profile.kernels import tabulate_kernels
from phasewise.profile.memory import read_host_memory, record_device_memory
from phasewise.profile.operators import make_finder, nest, tabulate_operators
from phasewise.profile.opinion import ask_second_opinion
from phasewise.profile.probes import run_probes
from phasewise.profile.rework import Rework, price_rework
from phasewise.profile.scrub import pack_trace, scrub_trace
from phasewise.profile.shape import choose_shape
from phasewise.profile.stretches import draw_out
from phasewise.profile.timeline import Frame, choose_frame, find_regions, frame_steps, summarise
from phasewise.profile.tools import relative
from phasewise.profile.trace import KERNEL, Trace, decode_trace, parse_trace
from phasewise.records.base import Scalar
from phasewise.records.machine import Machine, Sensors
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.records.profile import Capture, CaseProfile, Count, Memory, Probe
from phasewise.records.verdict import Failure, Reason
from phasewise.store import write_bytes
from phasewise.workers.lock import lock_captures

# steps under the sensors are waited for this often
SENSED_S = 0.2


@dataclass(frozen=True)
class UnreadTrace:
    """A trace that the profiler has yet to write."""

    write: Callable[[], bytes]
    # of a step without the profiler
    untraced_s: float


@dataclass(frozen=True)
class ReadTrace:
    """A trace with what is read off it."""

    plain: dict[str, Any]
    trace: Trace
    frames: list[Frame]
    overhead: float


def profile_case(plan: VariantPlan, case: str, *, root: Path, captures: Path, machine: Machine) -> CaseProfile:
    """Profile `case` of a variant; captures go to `captures/<case>/<variant>.*`.

    The state of the program is loaded before each capture, so that all see the same step. Of cases that
    run side by side, one at a time touches the device.
    """
    with lock_captures(plan.device):
        began = read_compiler()
        built = open_profiled(plan, case, root)
        stepper = make_stepper(built)
        step_s = warm_up(stepper)
        try:
            refuse_long_step(stepper, step_s)
        except TooLong:
            message = f"one step runs more than {MOST_OPERATORS} operators, too many for a trace; give the case `baseline_at` smaller shapes"
            return CaseProfile(case=case, failure=Failure(reason=Reason.OVER_BUDGET, message=message))
        compiler = read_compiler()
        retries = _retries(built.device)
        taken = _take(stepper, choose_steps(step_s))
        retries = _retries(built.device) - retries
        after = read_compiler()
        sensors, sensed = _record_sensors(plan, stepper, step_s)
    captured = _parse(taken)
    # what the profiler holds takes as much memory as what was read from it
    del taken
    steps = max(len(captured.frames), 1)
    extra = {
        "allocation_retries": retries / steps,
        "graph_breaks": float(after.breaks - began.breaks),
        "recompiles": (after.graphs - compiler.graphs) / steps,
    }
    trace = _keep_trace(captured, captures / case / f"{plan.variant}.1.pt.trace.json.gz", root)
    found = _read(plan, case, root, captured, extra)
    unjudged = _why_not_judged(captured, after != began, found)
    with lock_captures(plan.device):
        path = captures / case / f"{plan.variant}.memory.json.gz"
        memory, remembered = _record_memory(plan, stepper, captured, path, root, trace)
        count, judged = _judge_rework(stepper, found, unjudged)
        probes = _probe(captured, found, machine, built.device)
        built.program.close()
    kept = (trace, *remembered, *sensed)
    return msgspec.structs.replace(
        found, count=count, memory=memory, sensors=sensors, probes=probes, captures=kept,
        facts={**found.facts, **_describe_shape(plan, case), **judged, **describe_program(built)},
    )  # fmt: skip


def profile_plain(arguments: dict[str, Any]) -> Any:
    """`profile_case` from plain values to plain values, for a process of its own."""
    found = profile_case(
        msgspec.convert(arguments["plan"], VariantPlan), arguments["case"], root=Path(arguments["root"]),
        captures=Path(arguments["captures"]), machine=msgspec.convert(arguments["machine"], Machine),
    )  # fmt: skip
    return msgspec.to_builtins(found)


def read_profile(case: str, captured: ReadTrace, extra: dict[str, float] | None = None) -> CaseProfile:
    """All that is read off a trace alone."""
    trace, frames = captured.trace, captured.frames
    with no_gc():
        hidden = hides_kernels(trace, frames)
        count = count_events(trace, frames, extra)
        return CaseProfile(
            case=case, steps=len(frames), breakdown=summarise(choose_frame(frames)) if frames else None,
            stretches=draw_out(choose_frame(frames)) if frames else (), regions=find_regions(trace, frames), kernels=tabulate_kernels(trace, frames),
            operators=tabulate_operators(trace, [frame.step for frame in frames]), count=count,
            graph_replay=count.graph_launches > 0, attributed_by="none" if hidden else "trace", overhead=captured.overhead,
            second_opinion=ask_second_opinion(captured.plain, trace, frames),
        )  # fmt: skip


def switch_graphs_off(planned: PlannedCase) -> dict[str, Scalar] | None:
    """The switches with those off that name a graph; None if none is on."""
    graphs = [name for name, value in planned.switches.items() if value is True and "graph" in name.split("_")]
    return {**planned.switches, **dict.fromkeys(graphs, False)} if graphs else None


def _describe_shape(plan: VariantPlan, case: str) -> dict[str, Scalar]:
    """The shape that was profiled, where it is not the case's own."""
    shape = choose_shape(plan, case)
    return {} if shape is None else {"profiled_at": repr(shape)}


def _take(stepper: Stepper, steps: int) -> UnreadTrace:
    stepper.case.restore()
    untraced = time_untraced(stepper, steps)
    stepper.case.restore()
    return UnreadTrace(capture_trace(stepper, steps), untraced)


def _parse(taken: UnreadTrace) -> ReadTrace:
    with no_gc():
        plain = scrub_trace(decode_trace(taken.write()))
        trace = parse_trace(plain)
        frames = frame_steps(trace)
    traced = sum(frame.wall for frame in frames) * 1e-9 / max(len(frames), 1)
    return ReadTrace(plain, trace, frames, traced / taken.untraced_s)


def _read(plan: VariantPlan, case: str, root: Path, captured: ReadTrace, extra: dict[str, float]) -> CaseProfile:
    """The profile; where graphs hide their kernels, operators and kernels are those of the step without its graphs."""
    found = read_profile(case, captured, extra)
    switches = switch_graphs_off(plan.case(case))
    if found.attributed_by != "none" or switches is None:
        return found
    cases = tuple(
        msgspec.structs.replace(planned, switches=switches) if planned.case == case else planned
        for planned in plan.cases
    )
    with lock_captures(plan.device):
        stepper = make_stepper(build_case(msgspec.structs.replace(plan, cases=cases), case, root))
        taken = _take(stepper, choose_steps(warm_up(stepper)))
        stepper.case.program.close()
    plain = read_profile(case, _parse(taken))
    return msgspec.structs.replace(
        found, kernels=plain.kernels, operators=plain.operators, regions=plain.regions, attributed_by="ungraphed"
    )


def _keep_trace(captured: ReadTrace, path: Path, root: Path) -> Capture:
    with no_gc():
        packed, left_out = pack_trace(captured.plain)
    write_bytes(packed, path)
    note = f"left out to stay small: {', '.join(left_out)}" if left_out else ""
    return Capture(tool="torch", path=relative(path, root), bytes=len(packed), note=note)


def _record_memory(
    plan: VariantPlan, stepper: Stepper, captured: ReadTrace, path: Path, root: Path, trace: Capture
) -> tuple[Memory, list[Capture]]:
    if "memory" not in plan.profilers or not captured.frames:
        return Memory(), []
    frame = choose_frame(captured.frames)
    if stepper.case.device.type != "cuda":
        kept = Capture(tool="memory", path=trace.path, note="memory events of the torch capture")
        return read_host_memory(captured.trace, frame), [kept]
    stepper.case.restore()
    memory, plain = record_device_memory(stepper, float(count_memory_events(captured.trace, frame.step, device=True)))
    content = gzip.compress(json.dumps(plain).encode(), mtime=0)
    write_bytes(content, path)
    return memory, [Capture(tool="memory", path=relative(path, root), bytes=len(content))]


def _record_sensors(plan: VariantPlan, stepper: Stepper, step_s: float) -> tuple[tuple[Sensors, ...], list[Capture]]:
    if "nvml" not in plan.profilers:
        return (), []
    gpu = open_gpu(stepper.case.device.index or 0) if stepper.case.device.type == "cuda" else None
    if gpu is None:
        on_cpu = stepper.case.device.type != "cuda"
        reason = "no NVIDIA GPU" if on_cpu else "NVML does not answer"
        cure = "" if on_cpu else "install nvidia-ml-py and check nvidia-smi"
        return (), [Capture(tool="nvml", skipped=reason, cure=cure)]
    stepper.case.restore()
    at_once = max(1, min(100, int(SENSED_S / step_s)))
    sensors = watch(lambda: stepper.run_many(at_once), gpu.read)
    return sensors, [Capture(tool="nvml", note="in the record itself")]


def _why_not_judged(captured: ReadTrace, compiled: bool, found: CaseProfile) -> str:
    """Why repeated work can't be seen in this step; "" if it can."""
    if found.count.graph_launches:
        return "the step replays graphs"
    if compiled:
        return "the step is compiled"
    if _runs_foreign_kernels(captured.trace, captured.frames):
        return "the step runs kernels that torch does not dispatch"
    return ""


def _judge_rework(stepper: Stepper, found: CaseProfile, unjudged: str) -> tuple[Count, dict[str, Scalar]]:
    """The counts with repeated work, or the fact why it was not looked for."""
    if unjudged:
        return found.count, {"rework_not_judged": unjudged}
    stepper.case.restore()
    try:
        with Rework() as rework:
            stepper.run_many(1)
    # what tensors without plain storage, and programs that forbid dispatch modes, raise
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return found.count, {"rework_not_judged": f"{type(error).__name__} under a dispatch mode"}
    calls, operator, seconds = price_rework(rework.repeated, found.operators)
    return msgspec.structs.replace(
        found.count, repeated_calls=calls, repeated_operator=operator, repeated_s=seconds
    ), {}


def _probe(captured: ReadTrace, found: CaseProfile, machine: Machine, device: torch.device) -> tuple[Probe, ...]:
    """All probes; none where the workload leaves no memory for them."""
    try:
        return run_probes(captured.trace, captured.frames, found.operators, found.kernels, machine, device)
    except torch.OutOfMemoryError:
        return ()


def _runs_foreign_kernels(trace: Trace, frames: Sequence[Frame]) -> bool:
    """Whether a kernel was launched outside the operators of torch's own library, or foreign packages are loaded on a CPU."""
    if not trace.has_device:
        return "numba" in sys.modules
    finder = make_finder(nest(trace.operators))
    for frame in frames:
        for event in frame.work:
            launch = trace.launch_of(event)
            node = finder.at(launch) if launch is not None else None
            if event.category == KERNEL and (node is None or not node.event.name.startswith("aten::")):
                return True
    return False


def _retries(device: torch.device) -> int:
    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0)) if device.type == "cuda" else 0
