"""Charts of where the time of a step goes: parts, regions, spans of a step, roofline, limits of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.analyse import CaseResult
from phasewise.records.machine import Peaks
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, Counters, Region
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme
from phasewise.report.figures.lanes import Lane, Mark, draw_lanes
from phasewise.report.figures.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from phasewise.report.rows import kept_rows

# a line of text is so many times as high as the next: 16 of the roofline's 300 pixels, which span three or four decades
LINE = 1.6
# field of a breakdown, what readers call it, its colour
PARTS = (
    ("kernel_s", "kernels", BLUE),
    ("launch_gap_s", "launch gaps", ORANGE),
    ("sync_wait_s", "waiting for the device", RED),
    ("copy_s", "copies", PURPLE),
    ("communication_s", "communication", GREEN),
    ("input_s", "input", SKY),
    ("host_s", "host", GREY),
)
COLOURS = {label: colour for _, label, colour in PARTS}


def parts_of(breakdown: Breakdown) -> tuple[tuple[str, float], ...]:
    """The disjoint parts of a step with their seconds."""
    return tuple((label, getattr(breakdown, field)) for field, label, _ in PARTS)


def draw_breakdown(breakdowns: Sequence[tuple[str, Breakdown]], name: str) -> Figure | None:
    """One bar a variant: which share of its step goes where."""
    shown = [(variant, breakdown) for variant, breakdown in breakdowns if breakdown.wall_s > 0][-theme.MOST_ROWS :]
    if not shown:
        return None
    lanes = [
        Lane(name=variant, rows=(_stack(breakdown),), told=show.time(breakdown.wall_s)) for variant, breakdown in shown
    ]
    across = theme.quantity("low", "share of the step", domain=[0, 1], axis={"format": "%"})
    spec, height = draw_lanes(lanes, COLOURS, across, row=16, thick=14)
    told = ". ".join(
        f"{variant}: " + ", ".join(f"{part} {show.time(one)}" for part, one in parts_of(breakdown) if one)
        for variant, breakdown in shown
    )
    caption = "Where the time of a step goes, under the profiler; timings are taken without one"
    return theme.finish(spec, name, caption, told + ".", height)


def _stack(breakdown: Breakdown) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for part, seconds in parts_of(breakdown):
        start = marks[-1].high if marks else 0.0
        if seconds:
            marks.append(Mark(kind=part, low=start, high=start + seconds / breakdown.wall_s, told=show.time(seconds)))
    return tuple(marks)


def draw_regions(regions: Sequence[Region], name: str) -> Figure | None:
    """Named regions of the step by time."""
    longest = max((region.seconds for region in regions), default=0.0)
    if longest <= 0:
        return None
    scale, unit = show.unit_for(longest, show.TIMES)
    lanes = [
        Lane(name=region.name, rows=((Mark(kind="region", low=0.0, high=region.seconds / scale, told=show.time(region.seconds)),),),
             told=show.time(region.seconds))
        for region in regions[: theme.MOST_ROWS]
    ]  # fmt: skip
    across = theme.quantity("low", f"time within one step ({unit})", domain=[0, longest / scale])
    spec, height = draw_lanes(lanes, {"region": BLUE}, across, row=12, thick=10)
    told = ", ".join(f"{lane.name} {lane.told}" for lane in lanes)
    return theme.finish(spec, name, "Regions of the step", f"{told}.", height)


def draw_limits(counters: Sequence[Counters], name: str) -> Figure | None:
    """How near each kernel comes to what memory and multiprocessors can do."""
    lanes = []
    for one in counters:
        shares = (("memory", one.dram_percent), ("multiprocessors", one.sm_percent))
        rows = tuple(
            (Mark(kind=kind, low=0.0, high=value / 100, told=show.percent(value / 100)),)
            for kind, value in shares
            if value is not None and value <= 100
        )
        if rows:
            lanes.append(Lane(name=shorten_kernel(one.kernel), rows=rows, told=show.time(one.duration_s)))
    if not lanes:
        return None
    across = theme.quantity("low", "of the device's peak", domain=[0, 1], axis={"format": "%"})
    spec, height = draw_lanes(lanes, {"memory": BLUE, "multiprocessors": ORANGE}, across, row=10, thick=8)
    told = "; ".join(
        f"{lane.name}: " + ", ".join(f"{mark.kind} {mark.told}" for row in lane.rows for mark in row) for lane in lanes
    )
    return theme.finish(spec, name, "How near the longest kernels come to the device's peaks", f"{told}.", height)


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text beside the line on which all points stand."""

    # names of points that are nearly as fast
    text: str
    # operations per second of the fastest
    height: float
    side: str


def place_labels(speeds: Mapping[str, float]) -> list[Label]:
    """Right of the points, else left, where a label has room below the one before it; with that one where neither side has."""
    labels: list[Label] = []
    lowest = {"right": math.inf, "left": math.inf}
    for name, speed in sorted(speeds.items(), key=lambda item: -item[1]):
        side = next((side for side, last in lowest.items() if last >= LINE * speed), None)
        if side is None:
            labels[-1] = replace(labels[-1], text=f"{labels[-1].text}, {name}")
        else:
            labels.append(Label(text=name, height=speed, side=side))
            lowest[side] = speed
    return labels


def draw_roofline(case: CaseResult, work: CaseWork | None, peaks: Peaks | None, name: str) -> Figure | None:
    """Declared work over measured time, below the roofs that were measured on this machine."""
    timed = [row for row in kept_rows(case) if row.time_s is not None and row.time_s.estimate > 0]
    if work is None or peaks is None or work.flops <= 0 or work.bytes <= 0 or not timed:
        return None
    roof = peaks.matmul_flops_per_s.get(work.dtype)
    if not roof or peaks.copy_bytes_per_s <= 0:
        return None
    intensity, ridge = work.flops / work.bytes, roof / peaks.copy_bytes_per_s
    left, right = 0.02 * min(intensity, ridge), 50 * max(intensity, ridge)
    speeds = {row.variant: work.flops / row.time_s.estimate for row in timed if row.time_s is not None}
    low, high = min(*speeds.values(), roof) / 3, roof * 3
    roofs = [
        {"x": max(x, low / rate), "y": min(max(x, low / rate) * rate, roof), "kind": label}
        for label, rate in (("memory", peaks.copy_bytes_per_s), ("last-level cache", peaks.cached_copy_bytes_per_s))
        if rate
        for x in (left, roof / rate, right)
    ]
    times = {row.variant: show.time(row.time_s.estimate) for row in timed if row.time_s is not None}
    points = [{"x": intensity, "y": speed, "name": one, "told": times[one]} for one, speed in speeds.items()]
    texts = [
        {"x": intensity, "y": label.height, "name": label.text, "side": label.side} for label in place_labels(speeds)
    ]
    x = theme.quantity(
        "x", "operations per byte, as declared", type="log", domain=[left, right], axis=_powers(left, right)
    )
    y = theme.quantity("y", "operations per second", type="log", domain=[low, high], axis=_powers(low, high))
    dash = {"field": "kind", "type": "nominal", "legend": {"symbolType": "stroke"}}
    tooltip = [{"field": "name", "type": "nominal"}, {"field": "told", "type": "nominal"}]
    layers = [
        {"data": theme.rows(roofs), "mark": {"type": "line", "color": theme.SOFT}, "encoding": {"x": x, "y": y, "strokeDash": dash}},
        {"data": theme.rows(points), "mark": {"type": "circle", "size": 80, "color": BLUE, "opacity": 1}, "encoding": {"x": x, "y": y, "tooltip": tooltip}},
    ]  # fmt: skip
    for side, align, dx in (("right", "left", 9), ("left", "right", -9)):
        mine = [one for one in texts if one["side"] == side]
        if mine:
            layers += theme.write(theme.rows(mine), x, y, "name", align=align, dx=dx, fontSize=12, limit=170)
    told = ", ".join(f"{row.variant} {show.percent(row.floor_fraction)} of the best possible" for row in timed)
    return theme.finish(
        {"layer": layers},
        name,
        f"Roofline from measured peaks ({work.dtype}: {show.rate(roof, 'FLOP/s')}, memory: "
        f"{show.rate(peaks.copy_bytes_per_s, 'B/s')})",
        f"The step has {show.number(intensity)} declared operations a byte. {told}.",
        300,
    )


def _powers(low: float, high: float) -> theme.Spec:
    return {**theme.log_ticks(low, high, _tell_power), "grid": False}


def _tell_power(value: float) -> str:
    scale, prefix = show.unit_for(value, show.RATES)
    return f"{show.number(float(f'{value / scale:.6g}'))} {prefix}".rstrip()
