"""What the allocator held over one step: on a GPU from its own history, on a CPU from the memory events of the trace."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import torch

from phasewise.profile.capture import Stepper, device_memory
from phasewise.profile.counts import count_memory_events
from phasewise.profile.operators import NANO, make_finder, nest
from phasewise.profile.timeline import Frame
from phasewise.profile.trace import Trace, in_step
from phasewise.records.profile import Memory, MemoryEvent

# points of the timeline, and blocks, that a record keeps
POINTS = 200
BLOCKS = 20
# allocator events of one step that are recorded; beyond these the oldest are lost
HISTORY = 200_000


def record_device_memory(stepper: Stepper, allocations: float | None) -> tuple[Memory, dict[str, Any]]:
    """The history of one step on the GPU, and the same with every event as plain JSON: no pickle is written."""
    device = stepper.case.device
    stepper.case.synchronize()
    torch.cuda.reset_peak_memory_stats(device)
    held = torch.cuda.memory_allocated(device)
    torch.cuda.memory._record_memory_history(max_entries=HISTORY, context="alloc", stacks="python")
    try:
        stepper.run_many(1)
        snapshot = torch.cuda.memory._snapshot(device)
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    peak, reserved, capacity = device_memory(device)
    traces = snapshot.get("device_traces") or [[]]
    events = traces[device.index or 0] if len(traces) > (device.index or 0) else []
    points = follow_allocator(events, held)
    memory = Memory(
        peak_bytes=peak, reserved_bytes=reserved, capacity_bytes=capacity, allocations_per_step=allocations,
        timeline=thin(points), largest=largest_blocks(events, snapshot.get("segments") or []),
    )  # fmt: skip
    plain = {"peak_bytes": peak, "reserved_bytes": reserved, "capacity_bytes": capacity, "held_before_bytes": held,
             "events": [[point.at_s, point.allocated_bytes] for point in points],
             "largest": [list(block) for block in memory.largest]}  # fmt: skip
    return memory, plain


def follow_allocator(events: Sequence[Mapping[str, Any]], held: int) -> list[MemoryEvent]:
    """Bytes held after each allocation and release, from `held` bytes on; times from the first event."""
    points: list[MemoryEvent] = []
    start = None
    for event in events:
        sign = {"alloc": 1, "free_completed": -1}.get(str(event.get("action")), 0)
        if not sign:
            continue
        at = int(event.get("time_us", 0))
        start = at if start is None else start
        held += sign * int(event["size"])
        points.append(MemoryEvent(at_s=(at - start) * 1e-6, allocated_bytes=held))
    return points


def largest_blocks(
    events: Sequence[Mapping[str, Any]], segments: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, int], ...]:
    """The largest blocks that the step allocated or that are still held, each with the place in Python that asked for it."""
    blocks = [(_place(event), int(event["size"])) for event in events if event.get("action") == "alloc"]
    blocks += [
        ("held before the step", int(block["size"]))
        for segment in segments
        for block in segment.get("blocks", ())
        if block.get("state") == "active_allocated" and not block.get("frames")
    ]
    return tuple(sorted(set(blocks), key=lambda block: (-block[1], block[0]))[:BLOCKS])


def read_host_memory(trace: Trace, frame: Frame) -> Memory:
    """What operators allocated and released on the host during one step; the profiler counts from its own start."""
    events = [event for event in in_step(trace.memory, frame.step) if event.args.get("Device Type", 0) == 0]
    points = [
        MemoryEvent(
            at_s=(event.start - frame.step.start) * NANO, allocated_bytes=int(event.args.get("Total Allocated", 0))
        )
        for event in events
    ]
    finder = make_finder(nest(in_step(trace.operators, frame.step)))
    sizes = set()
    for event in events:
        if event.args.get("Bytes", 0) > 0:
            node = finder.at(event)
            sizes.add((node.event.name if node else "outside operators", int(event.args["Bytes"])))
    return Memory(
        peak_bytes=max((point.allocated_bytes for point in points), default=None),
        allocations_per_step=float(count_memory_events(trace, frame.step, device=False)),
        timeline=thin(points),
        largest=tuple(sorted(sizes, key=lambda block: (-block[1], block[0]))[:BLOCKS]),
    )


def thin(points: Sequence[MemoryEvent], most: int = POINTS) -> tuple[MemoryEvent, ...]:
    """At most `most` points: of each stretch its highest, so that the peak stays."""
    if len(points) <= most:
        return tuple(points)
    edges = [round(index * len(points) / most) for index in range(most + 1)]
    return tuple(
        max(points[start:end], key=lambda point: point.allocated_bytes)
        for start, end in itertools.pairwise(edges)
        if end > start
    )


def _place(event: Mapping[str, Any]) -> str:
    """File name, line and function of the innermost frame outside torch."""
    for frame in event.get("frames") or ():
        path = str(frame.get("filename", ""))
        if path.endswith(".py") and "/torch/" not in path:
            return f"{PurePath(path).name}:{frame.get('line')} {frame.get('name')}"
    return "inside torch"
