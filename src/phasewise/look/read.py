"""Read what the script's process left behind, in a process that imports torch: the parent has no need to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from phasewise.bench.no_gc import no_gc
from phasewise.look.known import SEEN, TRACE, Seen
from phasewise.prepare.machine import prepare_machine
from phasewise.profile.case import ReadTrace, read_profile
from phasewise.profile.counts import count_memory_events
from phasewise.profile.memory import read_host_memory
from phasewise.profile.scrub import scrub_trace
from phasewise.profile.timeline import choose_frame, frame_steps
from phasewise.profile.trace import decode_trace, parse_trace
from phasewise.records.machine import Machine
from phasewise.records.profile import CaseProfile, Memory

CASE = "step"


def read_capture(folder: str) -> dict[str, Any]:
    """What `inside` left in `folder` as a plain `CaseProfile`."""
    seen = msgspec.json.decode((Path(folder) / SEEN).read_bytes(), type=Seen)
    with no_gc():
        plain = scrub_trace(decode_trace((Path(folder) / TRACE).read_bytes()))
        trace = parse_trace(plain)
        frames = frame_steps(trace)
    assert frames, "the window holds whole steps"
    traced_s = sum(frame.wall for frame in frames) * 1e-9 / len(frames)
    extra = {
        "allocation_retries": seen.allocation_retries / len(frames),
        "graph_breaks": float(seen.graph_breaks),
        "recompiles": seen.recompiles / len(frames),
    }
    captured = ReadTrace(plain, trace, frames, traced_s / seen.step_s)
    found = read_profile(CASE, captured, extra)
    frame = choose_frame(frames)
    memory = read_host_memory(trace, frame)
    if seen.device == "cuda":
        memory = Memory(
            peak_bytes=seen.peak_bytes, reserved_bytes=seen.reserved_bytes, capacity_bytes=seen.capacity_bytes,
            allocations_per_step=float(count_memory_events(trace, frame.step, device=True)),
        )  # fmt: skip
    kept: CaseProfile = msgspec.structs.replace(found, memory=memory, facts=seen.facts)
    plain_profile: dict[str, Any] = msgspec.to_builtins(kept)
    return plain_profile


def measure_machine(detected: dict[str, Any]) -> dict[str, Any]:
    """A plain `Machine` with measured peaks."""
    machine: dict[str, Any] = msgspec.to_builtins(prepare_machine(msgspec.convert(detected, Machine)))
    return machine
