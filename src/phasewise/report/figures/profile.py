"""Charts of where the time of a step goes: parts, regions, kernels, roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.analyse import CaseResult
from phasewise.records.machine import Peaks
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, Kernel, Region
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme
from phasewise.report.rows import kept_rows

# a line of text is so many times as high as the next: 14 of the roofline's 320 pixels, which span three or four decades
LINE = 1.45
# field of a breakdown, what readers call it, its colour
PARTS = (
    ("kernel_s", "kernels", theme.BLUE),
    ("launch_gap_s", "launch gaps", theme.ORANGE),
    ("sync_wait_s", "waiting for the device", theme.RED),
    ("copy_s", "copies", theme.PURPLE),
    ("communication_s", "communication", theme.GREEN),
    ("input_s", "input", theme.SKY),
    ("host_s", "host", theme.GREY),
)


def parts_of(breakdown: Breakdown) -> tuple[tuple[str, float], ...]:
    """The disjoint parts of a step with their seconds."""
    return tuple((label, getattr(breakdown, field)) for field, label, _ in PARTS)


def draw_breakdown(breakdowns: Sequence[tuple[str, Breakdown]], name: str) -> Figure | None:
    """One bar a variant, each as long as its step: which part of the step goes where."""
    shown = [(variant, breakdown) for variant, breakdown in breakdowns if breakdown.wall_s > 0]
    if not shown:
        return None
    labels = {variant: f"{variant} · {show.time(breakdown.wall_s)}" for variant, breakdown in shown}
    values = [
        {"name": labels[variant], "part": part, "seconds": seconds, "time": show.time(seconds), "order": order}
        for variant, breakdown in shown
        for order, (part, seconds) in enumerate(parts_of(breakdown))
    ]
    used = [
        (label, colour) for _, label, colour in PARTS if any(one["part"] == label and one["seconds"] for one in values)
    ]
    chart = (
        alt.Chart(theme.rows([one for one in values if one["seconds"]]))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("seconds:Q", stack="normalize", title="share of the step", axis=alt.Axis(format="%", tickCount=5)),
            y=theme.names_axis(list(labels.values())),
            color=alt.Color(
                "part:N", scale=theme.colours([label for label, _ in used], [colour for _, colour in used])
            ),
            order=alt.Order("order:Q"),
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("part:N"), alt.Tooltip("time:N")],
        )
        .properties(width=theme.WIDTH - 180, height=alt.Step(32))
    )
    told = ". ".join(
        f"{variant}: " + ", ".join(f"{part} {show.time(one)}" for part, one in parts_of(breakdown) if one)
        for variant, breakdown in shown
    )
    return theme.finish(
        chart, name, "Where the time of a step goes (profiled; timings are taken without a profiler)", told + "."
    )


def draw_regions(regions: Sequence[Region], name: str) -> Figure | None:
    """Named regions of the step by time."""
    bars = [(region.name, region.seconds) for region in regions]
    return _bars(bars, name, "Regions of the step", "time within one step")


def draw_kernels(kernels: Sequence[Kernel], name: str, most: int = 12) -> Figure | None:
    """The kernels that hold most of the step."""
    longest = sorted(kernels, key=lambda kernel: (-kernel.seconds, kernel.name))[:most]
    short = [shorten_kernel(one.name) for one in longest]
    return _bars(
        # a bar is found by its name, so kernels that read alike keep theirs whole
        [(one.name if short.count(told) > 1 else told, one.seconds) for one, told in zip(longest, short, strict=True)],
        name,
        "Longest kernels of one step",
        "time within one step",
    )


def _bars(bars: Sequence[tuple[str, float]], name: str, caption: str, title: str) -> Figure | None:
    if not bars or max(seconds for _, seconds in bars) <= 0:
        return None
    scale, unit = show.unit_for(max(seconds for _, seconds in bars), show.TIMES)
    values = [{"name": one, "value": seconds / scale, "time": show.time(seconds)} for one, seconds in bars]
    base = alt.Chart(theme.rows(values)).encode(
        x=alt.X("value:Q", title=f"{title} ({unit})", axis=alt.Axis(tickCount=5)),
        y=theme.names_axis([one for one, _ in bars], labelLimit=260),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("time:N")],
    )
    labels = base.mark_text(align="left", dx=5).encode(text="time:N")
    chart = alt.layer(base.mark_bar(color=theme.BLUE), labels).properties(width=theme.WIDTH - 280, height=alt.Step(24))
    told = ", ".join(f"{one} {show.time(seconds)}" for one, seconds in bars)
    return theme.finish(chart, name, caption, f"{told}.")


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
    left, right = 0.2 * min(intensity, ridge), 5 * max(intensity, ridge)
    roofs = [
        {"x": x, "y": min(x * rate, roof), "roof": label}
        for label, rate in (("memory", peaks.copy_bytes_per_s), ("last-level cache", peaks.cached_copy_bytes_per_s))
        if rate
        for x in (left, roof / rate, right)
    ]
    speeds = {row.variant: work.flops / row.time_s.estimate for row in timed if row.time_s is not None}
    points = [
        {"x": intensity, "y": speed, "name": variant, "time": show.time(work.flops / speed)}
        for variant, speed in speeds.items()
    ]
    texts = [
        {"x": intensity, "y": label.height, "name": label.text, "side": label.side} for label in place_labels(speeds)
    ]
    log_x = alt.Scale(type="log", domain=[left, right], nice=False)
    across = alt.X(
        "x:Q", title="declared operations per byte", scale=log_x, axis=alt.Axis(format="~g", tickCount=6, grid=False)
    )
    up = alt.Y(
        "y:Q",
        title="operations per second",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~s", tickCount=6, grid=False),
    )
    dash = alt.StrokeDash("roof:N", legend=alt.Legend(title=None))
    lines = alt.Chart(theme.rows(roofs)).mark_line(color=theme.SOFT).encode(x=across, y=up, strokeDash=dash)
    dots = alt.Chart(theme.rows(points)).encode(x=across, y=up, tooltip=[alt.Tooltip("name:N"), alt.Tooltip("time:N")])
    marks = dots.mark_point(filled=True, size=80, color=theme.BLUE, opacity=1)
    names = alt.Chart(theme.rows(texts)).encode(x=across, y=up, text="name:N")
    labels = (
        names.transform_filter("datum.side == 'right'").mark_text(align="left", dx=9, fontSize=11, limit=230),
        names.transform_filter("datum.side == 'left'").mark_text(align="right", dx=-9, fontSize=11, limit=230),
    )
    told = ", ".join(f"{row.variant} {show.percent(row.floor_fraction)} of the best possible" for row in timed)
    return theme.finish(
        alt.layer(lines, marks, *labels).properties(width=480, height=320),
        name,
        f"Roofline from measured peaks ({work.dtype}: {show.rate(roof, 'FLOP/s')}, memory: "
        f"{show.rate(peaks.copy_bytes_per_s, 'B/s')})",
        f"The step has {show.number(intensity)} declared operations a byte. {told}.",
    )
