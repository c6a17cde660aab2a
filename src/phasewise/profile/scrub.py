"""A captured trace made fit to be kept and shown: no names of the machine or its users, no absolute paths, limited size."""

from __future__ import annotations

import contextlib
import getpass
import gzip
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

# a packed trace larger than this is thinned
LIMIT_BYTES = 8 << 20
# events that tell how large all of them are packed, within a few per cent; and what is surely more than the limit
SAMPLE, SURELY = 20_000, 1.25
# what readers of the format need of the top level; the rest names hosts, paths, ranks and ids of the capture
KEPT = (
    "schemaVersion",
    "deviceProperties",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "record_shapes",
    "profile_memory",
    "with_flops",
)
# keys that may hold a name of the machine or of its user also inside events
DROPPED_ARGS = frozenset({"hostname", "host_name", "traceName", "Call stack", "kernel_file", "Trace name"})
# what holds numbers only, and most of a trace
NUMBERS = frozenset(
    {"ts", "dur", "pid", "tid", "Input Dims", "Input Strides", "Ev Idx", "External id", "Record function id"}
)
# two folders at least, after anything but a word: `and/or` and `B/s` are no paths
_PATH = re.compile(r"(?<![\w.\-/])/(?:[^\s\"'/\\:,()<>]+/)+([^\s\"'/\\:,()<>]*)")


def scrub_trace(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The trace without what names the machine: paths end as their last component, the host as `host`, the user as `user`."""
    hidden = _Hidden(make_hider(machine_names()))
    kept = {key: plain[key] for key in KEPT if key in plain}
    events = [_scrub(event, hidden) for event in plain.get("traceEvents", ())]
    return {**kept, "traceEvents": events}


def pack_trace(plain: Mapping[str, Any], limit: int = LIMIT_BYTES) -> tuple[bytes, tuple[str, ...]]:
    """The trace packed with gzip, below `limit` bytes, and what was left out for that.

    Left out in this order until it fits: Python frames, arrows, memory events, inputs of operators, all steps but the first
    recorded one, the shorter half of what is left again and again (steps and regions stay).
    """
    left_out: list[str] = []
    packed = _pack_below(plain, limit)
    for name, thin in _THINNERS:
        if packed is not None:
            return packed, tuple(left_out)
        plain = {**plain, "traceEvents": thin(plain["traceEvents"])}
        packed = _pack_below(plain, limit)
        left_out.append(name)
    while packed is None and len(plain["traceEvents"]) > 1:
        before = len(plain["traceEvents"])
        plain = {**plain, "traceEvents": _drop_shorter_half(plain["traceEvents"])}
        if len(plain["traceEvents"]) == before:
            break
        packed = _pack_below(plain, limit)
        left_out.append("short events")
    return _pack(plain) if packed is None else packed, tuple(dict.fromkeys(left_out))


def machine_names() -> dict[str, str]:
    """Names that must not be kept, with what stands for them."""
    names = {socket.gethostname(): "host", socket.gethostname().split(".")[0]: "host"}
    # a user may have no entry in the password database
    with contextlib.suppress(KeyError, OSError):
        names[getpass.getuser()] = "user"
    # names this short or this common are words of their own
    return {
        name: mask
        for name, mask in names.items()
        if len(name) > 3 and name not in ("root", "localhost", "user", "host")
    }


def make_hider(names: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes paths and `names` out of a text."""
    patterns = [(re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), mask) for name, mask in names.items()]

    def hide(text: str) -> str:
        if "/" in text:
            text = _PATH.sub(r"\1", text)
        for pattern, mask in patterns:
            text = pattern.sub(mask, text)
        return text

    return hide


class _Hidden(dict[str, str]):
    """Texts with nothing to hide left in them, by what they were: a few thousand stand in a million places."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide

    def __missing__(self, text: str) -> str:
        self[text] = self._hide(text)
        return self[text]


def _scrub(value: Any, hidden: _Hidden) -> Any:
    """The value without what is to be hidden; itself where there is nothing, as in nearly all of a million events."""
    if isinstance(value, str):
        return hidden[value]
    if isinstance(value, dict):
        changed = {}
        for key, inner in value.items():
            if key in NUMBERS:
                continue
            found = hidden[inner] if type(inner) is str else _scrub(inner, hidden)
            if found is not inner and found != inner:
                changed[key] = found
        if not changed and DROPPED_ARGS.isdisjoint(value):
            return value
        return {key: inner for key, inner in (value | changed).items() if key not in DROPPED_ARGS}
    if isinstance(value, list):
        found = [hidden[inner] if type(inner) is str else _scrub(inner, hidden) for inner in value]
        return found if found != value else value
    return value


def _pack_below(plain: Mapping[str, Any], limit: int) -> bytes | None:
    """The trace packed, or None if that takes more than `limit` bytes; where a sample leaves no doubt, nothing more is packed."""
    events = plain["traceEvents"]
    step = len(events) // SAMPLE
    if step > 1 and step * len(_pack({"traceEvents": events[::step]})) > SURELY * limit:
        return None
    packed = _pack(plain)
    return packed if len(packed) <= limit else None


def _pack(plain: Mapping[str, Any]) -> bytes:
    # a time stamp in the header would make equal traces unequal files
    return gzip.compress(msgspec.json.encode(plain), compresslevel=3, mtime=0)


def _without(*categories: str) -> Callable[[list[Any]], list[Any]]:
    return lambda events: [event for event in events if event.get("cat") not in categories]


def _drop_inputs(events: list[Any]) -> list[Any]:
    heavy = {
        "Concrete Inputs",
        "Input Strides",
        "Input Dims",
        "Input type",
        "Record function id",
        "Ev Idx",
        "Fwd thread id",
    }
    return [
        {**event, "args": {key: value for key, value in event.get("args", {}).items() if key not in heavy}}
        for event in events
    ]


def _first_step(events: list[Any]) -> list[Any]:
    steps = [event for event in events if str(event.get("name", "")).startswith("ProfilerStep#") and "dur" in event]
    if len(steps) < 2:
        return events
    end = min(step["ts"] + step["dur"] for step in steps)
    return [event for event in events if event.get("ph") == "M" or event.get("ts", 0) <= end]


def _drop_shorter_half(events: list[Any]) -> list[Any]:
    durations = sorted(event["dur"] for event in events if event.get("ph") == "X" and not _is_annotation(event))
    if not durations:
        return events
    middle = durations[len(durations) // 2]
    return [event for event in events if event.get("ph") != "X" or _is_annotation(event) or event["dur"] > middle]


def _is_annotation(event: Mapping[str, Any]) -> bool:
    return event.get("cat") in ("user_annotation", "gpu_user_annotation")


_THINNERS: tuple[tuple[str, Callable[[list[Any]], list[Any]]], ...] = (
    ("Python frames", _without("python_function")),
    ("arrows", _without("ac2g", "fwdbwd", "async_cpu_to_gpu")),
    ("memory events", _without("cpu_instant_event")),
    ("inputs of operators", _drop_inputs),
    ("later steps", _first_step),
)
