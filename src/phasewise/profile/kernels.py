"""The kernel table: what ran on the device per step; on a CPU, what operators computed in their own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phasewise.profile.intervals import length
from phasewise.profile.names import categorise_kernel, categorise_operator, guess_dtype, uses_tensor_cores
from phasewise.profile.operators import NANO, nest, tensor_inputs
from phasewise.profile.timeline import COMPILED, Frame
from phasewise.profile.trace import KERNEL, Event, Trace, in_step
from phasewise.records.profile import Kernel

# rows that a record keeps; the rest is summed in one
ROWS = 60


def tabulate_kernels(trace: Trace, frames: Sequence[Frame]) -> tuple[Kernel, ...]:
    """Kernels per step by name, the longest first; those beyond the first rows are summed in the last."""
    found: dict[str, list[Event]] = {}
    times: dict[str, int] = {}
    for frame in frames:
        for name, event, spent in _device_work(frame) if trace.has_device else _host_work(trace, frame):
            found.setdefault(name, []).append(event)
            times[name] = times.get(name, 0) + spent
    table = [_row(name, events, times[name], len(frames), trace.has_device) for name, events in found.items()]
    table.sort(key=lambda kernel: (-kernel.seconds, kernel.name))
    if len(table) <= ROWS:
        return tuple(table)
    rest = table[ROWS - 1 :]
    last = Kernel(
        name=f"({len(rest)} others)", calls=sum(kernel.calls for kernel in rest),
        seconds=sum(kernel.seconds for kernel in rest), category="other",
    )  # fmt: skip
    return (*table[: ROWS - 1], last)


def _device_work(frame: Frame) -> list[tuple[str, Event, int]]:
    return [(event.name, event, event.duration) for event in frame.work]


def _host_work(trace: Trace, frame: Frame) -> list[tuple[str, Event, int]]:
    work = [
        (node.event.name, node.event, length(node.own()))
        for node in nest(in_step(trace.operators, frame.step))
        if node.is_leaf()
    ]
    # names of compiled graphs hold a hash that changes with every version
    work += [
        ("compiled graph", event, event.duration)
        for event in in_step(trace.annotations, frame.step)
        if event.name.startswith(COMPILED[0])
    ]
    return work


def _row(name: str, events: Sequence[Event], spent: int, steps: int, device: bool) -> Kernel:
    longest = max(events, key=lambda event: event.duration)
    args = longest.args
    copies = device and longest.category != KERNEL
    if device:
        category, dtype = "copy" if copies else categorise_kernel(name), guess_dtype(name)
    else:
        category, dtype = categorise_operator(name), next((dtype for dtype, _ in tensor_inputs(longest)), "")
    occupancy = args.get("est. achieved occupancy %")
    return Kernel(
        name=name,
        calls=len(events) / steps,
        seconds=spent / steps * NANO,
        category=category,
        tensor_core=device and not copies and uses_tensor_cores(name),
        dtype=dtype,
        grid=_triple(args.get("grid")),
        block=_triple(args.get("block")),
        registers=_whole(args.get("registers per thread")),
        shared_bytes=_whole(args.get("shared memory")),
        occupancy=occupancy / 100 if isinstance(occupancy, int | float) else None,
    )


def _triple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) and all(isinstance(size, int) for size in value) else ()


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
