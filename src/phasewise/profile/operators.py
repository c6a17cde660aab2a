"""The operators of the host as a forest, and their table: calls, own time, device time, shapes, operations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phasewise.profile.flops import count_flops, has_formula
from phasewise.profile.intervals import Interval, Intervals, length, merge, subtract
from phasewise.profile.names import TYPES, is_bookkeeping
from phasewise.profile.trace import Event, Step, Trace, in_step
from phasewise.records.profile import Operator

NANO = 1e-9
# rows that a record keeps; the rest is summed in one
ROWS = 80


@dataclass(slots=True)
class Node:
    """An operator with the operators that ran inside it on the same thread."""

    event: Event
    parent: Node | None
    children: list[Node] = field(default_factory=list)

    def own(self) -> Intervals:
        """When it ran and none of its children did."""
        return subtract([self.event.interval], merge(child.event.interval for child in self.children))

    def is_leaf(self) -> bool:
        """Whether it computes by itself: computing operators inside it take less than half of its time."""
        inner = merge(node.event.interval for node in self.children if not is_bookkeeping(node.event.name))
        return not is_bookkeeping(self.event.name) and 2 * length(inner) < max(self.event.duration, 1)


def nest(events: Sequence[Event]) -> list[Node]:
    """All operators with parent and children, in the order of the events (by start, the outer first)."""
    nodes: list[Node] = []
    stacks: dict[object, list[Node]] = {}
    for event in events:
        stack = stacks.setdefault((event.process, event.thread), [])
        while stack and stack[-1].event.end < event.end:
            stack.pop()
        node = Node(event=event, parent=stack[-1] if stack else None)
        if stack:
            stack[-1].children.append(node)
        stack.append(node)
        nodes.append(node)
    return nodes


def roots(nodes: Sequence[Node]) -> list[Node]:
    """Operators that no other one called."""
    return [node for node in nodes if node.parent is None]


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the innermost operator that runs on a thread at some time."""

    starts: Mapping[object, list[int]]
    nodes: Mapping[object, list[Node]]

    def at(self, event: Event) -> Node | None:
        """The innermost operator that was running on the event's thread when the event began."""
        key = (event.process, event.thread)
        starts = self.starts.get(key, [])
        index = bisect_right(starts, event.start) - 1
        node = self.nodes[key][index] if index >= 0 else None
        while node is not None and node.event.end < event.start:
            node = node.parent
        return node


def make_finder(nodes: Sequence[Node]) -> Finder:
    """A Finder over `nodes`."""
    by_thread: dict[object, list[Node]] = {}
    for node in nodes:
        by_thread.setdefault((node.event.process, node.event.thread), []).append(node)
    return Finder({key: [node.event.start for node in found] for key, found in by_thread.items()}, by_thread)


def tabulate_operators(trace: Trace, steps: Sequence[Step]) -> tuple[Operator, ...]:
    """Operators per step by name and shapes, the costliest first; those beyond the first rows are summed in the last."""
    device = _device_time(trace)
    sums: dict[tuple[str, str], list[float]] = {}
    for step in steps:
        nodes = nest(in_step(trace.operators, step))
        for node, flops in zip(nodes, count_outermost(nodes), strict=True):
            row = sums.setdefault((node.event.name, describe_inputs(node.event)), [0.0, 0.0, 0.0, 0.0])
            row[0] += 1
            row[1] += length(node.own())
            row[2] += device.get(id(node.event), 0)
            row[3] += flops
    share = 1 / max(len(steps), 1)
    table = [
        Operator(
            name=name, calls=row[0] * share, self_s=row[1] * share * NANO, device_s=row[2] * share * NANO, shapes=shapes,
            flops=row[3] * share or None,
        )
        for (name, shapes), row in sums.items()
    ]  # fmt: skip
    table.sort(key=lambda row: (-row.device_s - row.self_s, row.name, row.shapes))
    if len(table) <= ROWS:
        return tuple(table)
    rest = table[ROWS - 1 :]
    last = Operator(
        name=f"({len(rest)} others)", calls=sum(row.calls for row in rest), self_s=sum(row.self_s for row in rest),
        device_s=sum(row.device_s for row in rest), flops=sum(row.flops or 0.0 for row in rest) or None,
    )  # fmt: skip
    return (*table[: ROWS - 1], last)


def _device_time(trace: Trace) -> dict[int, int]:
    """Nanoseconds on the device of what each operator launched itself, by the identity of its event."""
    finder = make_finder(nest(trace.operators))
    times: dict[int, int] = {}
    for event in trace.device:
        launch = trace.launch_of(event)
        node = finder.at(launch) if launch is not None else None
        if node is not None:
            times[id(node.event)] = times.get(id(node.event), 0) + event.duration
    return times


def describe_inputs(event: Event) -> str:
    """Shapes and dtypes of the tensor inputs, such as `float32[64,64] float32[64]`; "" where they were not recorded."""
    return " ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in tensor_inputs(event))


def tensor_inputs(event: Event) -> list[tuple[str, tuple[int, ...]]]:
    """(dtype, shape) of each tensor among the inputs."""
    types, dims = event.args.get("Input type") or [], event.args.get("Input Dims") or []
    found = []
    for kind, shape in zip(types, dims, strict=False):
        if kind in TYPES and isinstance(shape, list) and all(isinstance(size, int) for size in shape):
            found.append((TYPES[kind], tuple(shape)))
    return found


def count_outermost(nodes: Sequence[Node]) -> list[float]:
    """Floating-point operations of each; 0 for what runs inside one that is counted, such as the product inside a convolution."""
    found: list[float] = []
    covered: set[int] = set()
    for node in nodes:
        name, is_inside = node.event.name, node.parent is not None and id(node.parent) in covered
        flops = None if is_inside or not has_formula(name) else count_flops(name, list_arguments(node.event))
        if is_inside or flops is not None:
            covered.add(id(node))
        found.append(flops or 0.0)
    return found


def list_arguments(event: Event) -> list[Any]:
    """The arguments in the order of the operator's schema: a tensor as the tuple of its sizes, others as they were recorded, else None."""
    types, dims = event.args.get("Input type") or [], event.args.get("Input Dims") or []
    values = event.args.get("Concrete Inputs") or [""] * len(types)
    return [
        tuple(shape) if kind in TYPES else _parse_value(value)
        for kind, shape, value in zip(types, dims, values, strict=False)
    ]


def _parse_value(text: str) -> Any:
    """A number, a truth value, or a list of them, such as "[True, False]"; None for anything else."""
    try:
        return msgspec.json.decode(text.lower())
    except msgspec.DecodeError:
        return None


def launching_intervals(trace: Trace) -> Intervals:
    """When the host is in a call of the CUDA runtime, or in an operator that makes one."""
    nodes = nest(trace.operators)
    finder = make_finder(nodes)
    busy: list[Interval] = [call.interval for call in trace.calls]
    seen: set[int] = set()
    for call in trace.calls:
        node = finder.at(call)
        while node is not None and node.parent is not None:
            node = node.parent
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            busy.append(node.event.interval)
    return merge(busy)
