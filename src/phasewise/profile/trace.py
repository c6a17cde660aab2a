"""Chrome traces of torch.profiler as typed events; times are integer nanoseconds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phasewise.bench.no_gc import no_gc
from phasewise.profile.intervals import Interval

STEP = "ProfilerStep#"
# what runs on the device
KERNEL, MEMCPY, MEMSET = "kernel", "gpu_memcpy", "gpu_memset"
DEVICE = frozenset({KERNEL, MEMCPY, MEMSET})
OPERATOR, ANNOTATION = "cpu_op", "user_annotation"
# calls of the CUDA runtime and driver on the host; older traces say `runtime`
CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime"})
MEMORY = "[memory]"
# older and foreign spellings of the categories above
ALIASES = {"operator": OPERATOR, "Operator": OPERATOR, "Kernel": KERNEL, "Memcpy": MEMCPY, "Memset": MEMSET}


@dataclass(frozen=True, slots=True)
class Event:
    """One complete event, or an instant one with `start == end`."""

    name: str
    category: str
    start: int
    end: int
    process: int | str
    thread: int | str
    args: Mapping[str, Any]

    @property
    def interval(self) -> Interval:
        return self.start, self.end

    @property
    def duration(self) -> int:
        return self.end - self.start

    @property
    def correlation(self) -> int | None:
        """Number that a launch on the host shares with its work on the device."""
        found = self.args.get("correlation")
        return found if isinstance(found, int) and found > 0 else None


@dataclass(frozen=True, slots=True)
class Step:
    """One `ProfilerStep#` annotation on the host."""

    name: str
    start: int
    end: int
    process: int | str
    thread: int | str

    def holds(self, event: Event) -> bool:
        """Whether the event begins while this step runs on the host."""
        return self.start <= event.start < self.end


@dataclass(frozen=True, slots=True)
class Trace:
    """Events by what they are, each list in order of time."""

    steps: tuple[Step, ...]
    operators: tuple[Event, ...] = ()
    calls: tuple[Event, ...] = ()
    # kernels, copies and sets on the device
    device: tuple[Event, ...] = ()
    # record_function regions on the host, without the steps
    annotations: tuple[Event, ...] = ()
    memory: tuple[Event, ...] = ()
    properties: tuple[Mapping[str, Any], ...] = ()
    # correlation -> call on the host
    launches: Mapping[int, Event] = field(default_factory=dict)

    @property
    def has_device(self) -> bool:
        """Whether device work, or a launch of any, was seen."""
        return bool(self.device) or bool(self.calls)

    def launch_of(self, event: Event) -> Event | None:
        """The call on the host that launched a device event."""
        return None if event.correlation is None else self.launches.get(event.correlation)


def decode_trace(content: bytes) -> dict[str, Any]:
    """The plain JSON of a trace as its profiler wrote it, packed with gzip or not."""
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    plain: dict[str, Any]
    with no_gc():
        try:
            plain = msgspec.json.decode(content)
        except msgspec.DecodeError:
            # profilers write control characters and bytes of other encodings into names, and NaN
            plain = json.loads(content.decode("utf-8", errors="replace"), strict=False)
    return plain


def parse_trace(plain: Mapping[str, Any]) -> Trace:
    """Sort the events of a Chrome trace by category; unknown ones are left out.

    Raises:
        ValueError: `traceEvents` is not a list.
    """
    raw = plain.get("traceEvents")
    if not isinstance(raw, list):
        raise ValueError("not a Chrome trace: `traceEvents` is missing")
    found: dict[str, list[Event]] = {}
    for item in raw:
        event = _event(item)
        if event is not None:
            found.setdefault(_kind(event), []).append(event)
    for events in found.values():
        # of events that begin together the longer one is the outer one
        events.sort(key=lambda event: (event.start, -event.end))
    calls = found.get("call", [])
    steps = [event for event in found.get(ANNOTATION, ()) if event.name.startswith(STEP)]
    return Trace(
        steps=tuple(Step(step.name, step.start, step.end, step.process, step.thread) for step in steps),
        operators=tuple(found.get(OPERATOR, ())),
        calls=tuple(calls),
        device=tuple(found.get("device", ())),
        annotations=tuple(event for event in found.get(ANNOTATION, ()) if not event.name.startswith(STEP)),
        memory=tuple(found.get(MEMORY, ())),
        properties=tuple(plain.get("deviceProperties") or ()),
        launches={call.correlation: call for call in calls if call.correlation is not None},
    )


def in_step(events: Iterable[Event], step: Step) -> list[Event]:
    """Host events that begin within the step."""
    return [event for event in events if step.holds(event)]


def _kind(event: Event) -> str:
    if event.category in CALLS:
        return "call"
    if event.category in DEVICE:
        return "device"
    return MEMORY if event.name == MEMORY else event.category


def _event(item: Any) -> Event | None:
    if not isinstance(item, dict) or item.get("ph") not in ("X", "i"):
        return None
    category = str(item.get("cat", ""))
    if not category and item.get("name") != MEMORY:
        return None
    try:
        start = round(float(item["ts"]) * 1000)
        end = start + max(round(float(item.get("dur", 0)) * 1000), 0)
    except (KeyError, TypeError, ValueError):
        return None
    args = item.get("args")
    return Event(
        name=str(item.get("name", "")), category=ALIASES.get(category, category), start=start, end=end,
        process=item.get("pid", 0), thread=item.get("tid", 0), args=args if isinstance(args, dict) else {},
    )  # fmt: skip
