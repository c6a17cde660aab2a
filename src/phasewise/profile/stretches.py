"""One step drawn out: which part of it, and which kernel, holds which moments."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.profile.intervals import Interval, Intervals, intersect, length, merge, subtract
from phasewise.profile.timeline import NANO, PARTS, Frame, is_communication
from phasewise.profile.trace import KERNEL
from phasewise.records.profile import Stretch

# kernels that are told apart
KERNELS = 8
# what lies closer than this share of the step is drawn as one
BLUR = 400
# parts in the words of a report
WORDS = {
    "kernel": "kernels", "communication": "communication", "copy": "copies", "input": "input", "sync_wait": "waiting for the device",
    "launch_gap": "launch gaps", "host": "host",
}  # fmt: skip


def draw_out(frame: Frame) -> tuple[Stretch, ...]:
    """The step from start to end, in order of time within each lane: longest kernels first, then the other parts."""
    if frame.wall <= 0:
        return ()
    by_kernel: dict[str, Intervals] = {}
    for event in frame.work:
        if event.category == KERNEL and not is_communication(event):
            by_kernel.setdefault(event.name, []).append(event.interval)
    longest = sorted(by_kernel, key=lambda name: (-length(merge(by_kernel[name])), name))[:KERNELS]
    told = merge(interval for name in longest for interval in by_kernel[name])
    lanes = [("kernel", name, intersect([frame.window], merge(by_kernel[name]))) for name in longest]
    lanes.append(("kernel", "", subtract(frame.parts["kernel"], told)))
    lanes += [(part, "", frame.parts[part]) for part in PARTS if part != "kernel"]
    lanes.append(
        ("host", "", subtract([frame.window], merge(interval for part in PARTS for interval in frame.parts[part])))
    )
    start = frame.window[0]
    return tuple(
        Stretch(part=WORDS[part], kernel=kernel, start_s=(first - start) * NANO, seconds=(last - first) * NANO)
        for part, kernel, intervals in lanes
        for first, last in _blur(intervals, frame.wall // BLUR)
    )


def _blur(intervals: Iterable[Interval], gap: int) -> Intervals:
    """Joined where less than `gap` lies between two."""
    joined: Intervals = []
    for first, last in intervals:
        if joined and first - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
