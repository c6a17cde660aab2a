"""Charts over time or over a check's own axis: sensors of the device, allocated memory, figures of checks."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from phasewise.records.machine import Sensors
from phasewise.records.profile import Memory
from phasewise.records.validate import Chart
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme

# field of a reading, its title, what one unit of the chart is
PANELS = (
    ("sm_clock_mhz", "clock (MHz)", 1.0),
    ("power_w", "power (W)", 1.0),
    ("utilisation_percent", "busy (%)", 1.0),
    ("temperature_c", "temperature (°C)", 1.0),
    ("memory_used_bytes", "memory (GB)", 1e9),
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])


def draw_sensors(sensors: Sequence[Sensors], name: str) -> Figure | None:
    """Clock, power, utilisation, temperature and memory while the step ran, one panel each."""
    panels = []
    told = []
    shown = theme.thin(sensors)
    for field, title, unit in PANELS:
        readings = [(one.at_s, getattr(one, field)) for one in shown]
        values = [{"at": at, "value": value / unit} for at, value in readings if value is not None]
        if len(values) < 2:
            continue
        low, high = min(one["value"] for one in values), max(one["value"] for one in values)
        told.append(f"{title} from {show.number(low)} to {show.number(high)}")
        panels.append(
            alt.Chart(theme.rows(values))
            .mark_line(color=theme.BLUE, strokeWidth=1.6)
            .encode(
                x=alt.X("at:Q", title=None, axis=alt.Axis(tickCount=6)),
                y=alt.Y(
                    "value:Q", title=None, axis=alt.Axis(tickCount=3), scale=alt.Scale(zero=field != "sm_clock_mhz")
                ),
                tooltip=[alt.Tooltip("at:Q", title="seconds", format=".2f"), alt.Tooltip("value:Q", format=".4~g")],
            )
            .properties(width=theme.WIDTH - 80, height=58, title=title)
        )
    if not panels:
        return None
    panels[-1] = panels[-1].encode(x=alt.X("at:Q", title="seconds since the reading began", axis=alt.Axis(tickCount=6)))
    chart = alt.vconcat(*panels, spacing=8).resolve_scale(x="shared")
    return theme.finish(chart, name, "Hardware over time", f"{'; '.join(told)}.")


def draw_memory(memory: Memory, name: str) -> Figure | None:
    """Bytes that the allocator held."""
    events = theme.thin(memory.timeline)
    if len(events) < 2:
        return None
    scale, unit = show.unit_for(max(one.allocated_bytes for one in events), show.BYTES)
    clock, seconds = show.unit_for(max(one.at_s for one in events), show.TIMES)
    values = [{"at": one.at_s / clock, "value": one.allocated_bytes / scale} for one in events]
    chart = (
        alt.Chart(theme.rows(values))
        .mark_area(
            interpolate="step-after", color=theme.SKY, opacity=0.5, line={"color": theme.BLUE, "strokeWidth": 1.4}
        )
        .encode(
            x=alt.X("at:Q", title=f"time ({seconds})", axis=alt.Axis(tickCount=6)),
            y=alt.Y("value:Q", title=f"allocated ({unit})", axis=alt.Axis(tickCount=4)),
            tooltip=[alt.Tooltip("at:Q", format=".3~g"), alt.Tooltip("value:Q", format=".3~g")],
        )
        .properties(width=theme.WIDTH - 80, height=150)
    )
    return theme.finish(
        chart, name, "Allocated memory over time", f"The allocator's peak is {show.size(memory.peak_bytes)}."
    )


def draw_check(chart: Chart, name: str) -> Figure | None:
    """The figure of a workload's own check."""
    values = [
        {"label": f"{index + 1}. {series.label}" if _repeats(chart, series.label) else series.label, "x": x, "y": y}
        for index, series in enumerate(chart.series)
        for x, y in theme.thin(list(zip(series.x, series.y, strict=False)))
        if y is not None and (y > 0 or not chart.log_y)
    ]
    if not values:
        return None
    labels = list(dict.fromkeys(one["label"] for one in values))
    palette = [theme.SERIES[index % len(theme.SERIES)] for index in range(len(labels))]
    dashes = [list(DASHES[index % len(DASHES)]) for index in range(len(labels))]
    domain = [theme.clean(label) for label in labels]
    base = alt.Chart(theme.rows(values)).encode(
        x=alt.X("x:Q", title=theme.clean(chart.x_title), axis=alt.Axis(tickCount=6), scale=alt.Scale(zero=False)),
        y=alt.Y(
            "y:Q",
            title=theme.clean(chart.y_title),
            scale=alt.Scale(type="log") if chart.log_y else alt.Scale(zero=False),
            axis=alt.Axis(tickCount=5, format="~g", grid=False) if chart.log_y else alt.Axis(tickCount=5),
        ),
        color=alt.Color("label:N", scale=alt.Scale(domain=domain, range=palette)),
        strokeDash=alt.StrokeDash("label:N", scale=alt.Scale(domain=domain, range=dashes)),
        tooltip=[alt.Tooltip("label:N"), alt.Tooltip("x:Q", format=".4~g"), alt.Tooltip("y:Q", format=".3~g")],
    )
    # a line between many points needs no points; few points need them to be seen
    point = len(values) <= 40 * len(labels)
    drawn = base.mark_line(strokeWidth=2, point=point).properties(width=theme.WIDTH - 80, height=220)
    title = show.clean(chart.title)
    return theme.finish(
        drawn,
        name,
        title,
        f"{title}: {show.clean(chart.y_title)} over {show.clean(chart.x_title)} for {', '.join(labels)}.",
    )


def _repeats(chart: Chart, label: str) -> bool:
    return sum(series.label == label for series in chart.series) > 1
