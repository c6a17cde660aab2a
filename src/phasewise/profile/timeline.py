"""Where the time of a step goes: disjoint parts that sum to its wall time, exactly, in integer nanoseconds.

With a device: each moment belongs to the first that holds of
1. kernel: a computing kernel runs;
2. communication: only a communication kernel runs, so it is exposed;
3. copy: only copies and sets run;
and where the device idles:
4. input: the host is in a data loader or in `region("place")`, which puts the batch into the variant's layout;
5. sync wait: the host waits in a synchronising call;
6. launch gap: the host is in an operator that launches, or in a call of the CUDA runtime;
7. host: anything else, Python above all.
CUDA graphs and compilation can cure 6 and 7, so a bound on what they gain is the sum of both.

On a CPU nothing is launched: kernel is the own time of operators that compute by themselves (`operators.Node.is_leaf`), copy and
communication that of such operators of these categories, input as above; host is Python and the dispatch of operators.
Work of other threads counts where the step's own thread waits for it: intervals of all threads are merged first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.profile.intervals import Interval, Intervals, covers, intersect, length, merge, subtract
from phasewise.profile.names import categorise_kernel, categorise_operator
from phasewise.profile.operators import launching_intervals, nest
from phasewise.profile.trace import KERNEL, Event, Step, Trace, in_step
from phasewise.records.profile import Breakdown, Region

NANO = 1e-9
PLACE = "place"
LOADER = "enumerate(DataLoader)"
# annotations of torch's own, which are no regions of the workload
INTERNAL = ("## ", "Torch-Compiled Region", "TorchDynamo", "Pregraph bytecode", "AOTDispatcher", "CompiledFxGraph", "PyTorch Profiler",
            "gloo:", "nccl:", "mpi:")  # fmt: skip
COMPILED = ("## Call CompiledFxGraph", "Torch-Compiled Region")
SYNCHRONISING = frozenset({
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize",
    "cuEventSynchronize", "cudaMemcpy", "cudaThreadSynchronize", "hipStreamSynchronize", "hipDeviceSynchronize",
})  # fmt: skip
PARTS = ("kernel", "communication", "copy", "input", "sync_wait", "launch_gap")


@dataclass(frozen=True, slots=True)
class Frame:
    """One step: its window and who holds which moments of it."""

    step: Step
    window: Interval
    # disjoint intervals by part; what is in none belongs to the host
    parts: Mapping[str, Intervals]
    # device events that the step launched
    work: Sequence[Event]

    @property
    def wall(self) -> int:
        return self.window[1] - self.window[0]


def frame_steps(trace: Trace) -> list[Frame]:
    """A frame for each recorded step.

    Where the host runs ahead of the device, a step ends when its last kernel does; the next one begins there. Time between two
    annotations in which the device idles is the profiler's own and belongs to no step.
    """
    work = assign_work(trace)
    claims = _claims(trace)
    frames: list[Frame] = []
    previous = None
    for step, launched in zip(trace.steps, work, strict=True):
        start = step.start if previous is None else max(previous, step.start)
        end = max([step.end, start, *(event.end for event in launched)])
        previous = end
        frames.append(Frame(step, (start, end), _divide((start, end), claims), launched))
    return frames


def assign_work(trace: Trace) -> list[list[Event]]:
    """Device events of each step: by the call that launched them, else by when they ran."""
    work: list[list[Event]] = [[] for _ in trace.steps]
    for event in trace.device:
        origin = trace.launch_of(event) or event
        for index, step in enumerate(trace.steps):
            if step.holds(origin):
                work[index].append(event)
                break
    return work


def summarise(frame: Frame, within: Sequence[Interval] | None = None) -> Breakdown:
    """The parts of a step, or of the moments `within` it, in seconds; they sum to `wall_s`."""
    whole = [frame.window] if within is None else list(within)
    lengths = {name: length(intersect(whole, frame.parts[name])) for name in PARTS}
    wall = length(whole)
    host = wall - sum(lengths.values())
    assert host >= 0, "parts are disjoint and inside the window"
    return Breakdown(
        wall_s=wall * NANO, host_s=host * NANO, **{f"{name}_s": value * NANO for name, value in lengths.items()}
    )


def choose_frame(frames: Sequence[Frame]) -> Frame:
    """The step of median wall time, the lower one of two: a real step, so that its parts still sum to its wall time."""
    return sorted(frames, key=lambda frame: (frame.wall, frame.window))[(len(frames) - 1) // 2]


def find_regions(trace: Trace, frames: Sequence[Frame]) -> tuple[Region, ...]:
    """Named regions of the median step, the longest first; nested ones each count in full.

    A region holds the kernels launched inside it, and the moments inside it on the host in which the device idles.
    """
    if not frames:
        return ()
    middle = choose_frame(frames)
    calls = [in_step((event for event in trace.annotations if is_region(event.name)), frame.step) for frame in frames]
    spans = [event for frame, events in zip(frames, calls, strict=True) if frame is middle for event in events]
    regions = []
    for name in dict.fromkeys(event.name for event in spans):
        host = merge(event.interval for event in spans if event.name == name)
        held = _region_intervals(trace, middle, host)
        breakdown = summarise(middle, held)
        share = length(held) / middle.wall if middle.wall else 0.0
        regions.append(
            Region(
                name=name, calls_per_step=sum(event.name == name for events in calls for event in events) / len(frames),
                seconds=breakdown.wall_s, share=share, bound=1 / (1 - share) if share < 1 else None, breakdown=breakdown,
            )
        )  # fmt: skip
    return tuple(sorted(regions, key=lambda region: (-region.seconds, region.name)))


def is_region(name: str) -> bool:
    """Whether an annotation is the workload's own."""
    return not name.startswith(INTERNAL)


def is_communication(event: Event) -> bool:
    """Whether a kernel of the device moves data between devices."""
    return event.category == KERNEL and categorise_kernel(event.name) == "communication"


def _region_intervals(trace: Trace, frame: Frame, host: Intervals) -> Intervals:
    """Moments of the frame that vanish if the region does."""
    if not trace.has_device:
        return intersect([frame.window], host)
    mine: Intervals = []
    others: Intervals = []
    for event in frame.work:
        origin = trace.launch_of(event) or event
        (mine if covers(host, origin.start) else others).append(event.interval)
    busy = merge(mine)
    idle = subtract(host, merge([*busy, *others]))
    return intersect([frame.window], merge([*busy, *idle]))


def _claims(trace: Trace) -> list[tuple[str, Intervals]]:
    """Who may hold which moments, in order of priority."""
    loading = merge(
        event.interval for event in trace.annotations if event.name == PLACE or event.name.startswith(LOADER)
    )
    if not trace.has_device:
        return [*_operator_claims(trace), ("input", loading)]
    computing = merge(
        event.interval for event in trace.device if event.category == KERNEL and not is_communication(event)
    )
    communicating = merge(event.interval for event in trace.device if is_communication(event))
    copying = merge(event.interval for event in trace.device if event.category != KERNEL)
    waiting = merge(call.interval for call in trace.calls if call.name.split("_v")[0] in SYNCHRONISING)
    return [
        ("kernel", computing), ("communication", communicating), ("copy", copying),
        ("input", loading), ("sync_wait", waiting), ("launch_gap", launching_intervals(trace)),
    ]  # fmt: skip


def _operator_claims(trace: Trace) -> list[tuple[str, Intervals]]:
    """The own time of computing operators, for a trace without a device."""
    own: dict[str, Intervals] = {"kernel": [], "communication": [], "copy": []}
    for node in nest(trace.operators):
        if node.is_leaf():
            category = categorise_operator(node.event.name)
            own[category if category in own else "kernel"] += node.own()
    mark = _compiled_name(trace)
    compiled = [event.interval for event in trace.annotations if event.name.startswith(mark)]
    exchanging = [event.interval for event in trace.annotations if event.name.startswith(("gloo:", "mpi:"))]
    own["kernel"] += compiled
    own["communication"] += exchanging
    return [(name, merge(intervals)) for name, intervals in own.items()]


def _compiled_name(trace: Trace) -> str:
    """How this trace marks compiled code: by the narrower mark where there is one."""
    return next(
        (mark for mark in COMPILED if any(event.name.startswith(mark) for event in trace.annotations)), COMPILED[0]
    )


def _divide(window: Interval, claims: Sequence[tuple[str, Intervals]]) -> dict[str, Intervals]:
    """Give each moment of the window to the first that claims it."""
    free: Intervals = [window] if window[1] > window[0] else []
    parts: dict[str, Intervals] = {name: [] for name in PARTS}
    for name, intervals in claims:
        parts[name] = intersect(free, intervals)
        free = subtract(free, parts[name])
    return parts
