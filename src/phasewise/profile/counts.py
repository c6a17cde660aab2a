"""What is counted per step for the findings: launches, waits, copies, allocations, loops; and whether graphs hide kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phasewise.profile.names import is_bookkeeping
from phasewise.profile.operators import NANO, nest, roots
from phasewise.profile.repeats import describe_loop, find_loop
from phasewise.profile.timeline import SYNCHRONISING, Frame
from phasewise.profile.trace import KERNEL, MEMCPY, Event, Step, Trace, in_step
from phasewise.records.profile import CLOSURE, OPTIMIZER, Count

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel", "hipLaunchKernel",
            "hipExtModuleLaunchKernel", "hipModuleLaunchKernel")  # fmt: skip
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
ALLOCATIONS = ("cudaMalloc", "cuMemAlloc", "cuMemCreate", "cudaHostAlloc", "cuMemHostAlloc", "hipMalloc")


def count_events(trace: Trace, frames: Sequence[Frame], facts: Mapping[str, float] | None = None) -> Count:
    """Counts per step. `facts` adds what a trace does not hold: allocation_retries, graph_breaks, recompiles.

    `allocations` are requests to the driver on a device (the caching allocator's own are in `Memory`), and all on a CPU.
    `copied_bytes` are those between host and device. The loop is that of the median of passes.
    """
    if not frames:
        return msgspec.structs.replace(Count(), **(facts or {}))
    calls = [call for frame in frames for call in in_step(trace.calls, frame.step)]
    copies = [event for frame in frames for event in frame.work if event.category == MEMCPY]
    to_device = [event for event in copies if "HtoD" in event.name]
    to_host = [event for event in copies if "DtoH" in event.name]
    totals = {
        "launches": _starting(calls, LAUNCHES),
        "graph_launches": _starting(calls, GRAPH_LAUNCHES),
        "synchronisations": sum(call.name.split("_v")[0] in SYNCHRONISING for call in calls),
        "host_to_device": len(to_device),
        "device_to_host": len(to_host),
        "pageable_copies": sum("Pageable" in event.name for event in copies),
        "copied_bytes": sum(_bytes(event) for event in (*to_device, *to_host)),
        "allocations": _starting(calls, ALLOCATIONS) if trace.has_device else _host_allocations(trace, frames),
    }
    means = {name: total / len(frames) for name, total in totals.items()}
    count = msgspec.structs.replace(Count(), **means, **(facts or {}))
    return _add_loop(count, trace, frames)


def hides_kernels(trace: Trace, frames: Sequence[Frame]) -> bool:
    """Whether graphs were launched whose kernels the trace lacks."""
    launched = {event.correlation for event in trace.device if event.category == KERNEL}
    replays = [
        call for frame in frames for call in in_step(trace.calls, frame.step) if call.name.startswith(GRAPH_LAUNCHES)
    ]
    return any(call.correlation not in launched for call in replays)


def count_memory_events(trace: Trace, step: Step, device: bool) -> int:
    """Blocks that torch's allocator handed out during the step, on the device or on the host."""
    return sum(
        event.args.get("Bytes", 0) > 0 and (event.args.get("Device Type", 0) != 0) == device
        for event in in_step(trace.memory, step)
    )


def _add_loop(count: Count, trace: Trace, frames: Sequence[Frame]) -> Count:
    found = []
    for frame in frames:
        regions = in_step(trace.annotations, frame.step)
        events = [
            node.event
            for node in roots(nest(in_step(trace.operators, frame.step)))
            if (node.event.process, node.event.thread) == (frame.step.process, frame.step.thread)
            and not _is_trivial(node.event)
            and not _is_of_optimizer(node.event, regions)
        ]
        loop = find_loop([event.name for event in events])
        if loop is not None:
            found.append((loop.passes, loop.period, *describe_loop(events, loop)))
    if not found:
        return count
    passes, period, operator, spent = sorted(found)[(len(found) - 1) // 2]
    return msgspec.structs.replace(
        count, serial_repeats=passes, serial_operator=operator, serial_period=period, serial_s=spent * NANO
    )


def _is_of_optimizer(event: Event, regions: Sequence[Event]) -> bool:
    """Its way through the parameters has a finding of its own; what it is handed to call is none of its work."""
    around = [region.name for region in regions if region.start <= event.start < region.end]
    return CLOSURE not in around and any(name.startswith(OPTIMIZER) for name in around)


def _is_trivial(event: Event) -> bool:
    """Views and the like, of which optimizers run hundreds in a row."""
    return event.name.startswith("aten::") and is_bookkeeping(event.name)


def _host_allocations(trace: Trace, frames: Sequence[Frame]) -> int:
    return sum(count_memory_events(trace, frame.step, device=False) for frame in frames)


def _starting(calls: Sequence[Event], names: tuple[str, ...]) -> int:
    return sum(call.name.startswith(names) for call in calls)


def _bytes(event: Event) -> int:
    found = event.args.get("bytes", 0)
    return found if isinstance(found, int) else 0
