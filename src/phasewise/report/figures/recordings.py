"""Charts over time or over a check's own axis: sensors of the device, allocated memory, one step, figures of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.machine import Sensors
from phasewise.records.profile import Memory, Stretch
from phasewise.records.validate import Chart
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme
from phasewise.report.figures.lanes import Lane, Mark, draw_lanes, write_names
from phasewise.report.figures.profile import COLOURS
from phasewise.report.figures.theme import Spec

# field of a reading, what it is, its unit, what one unit of the field is in it
PANELS = (
    ("utilisation_percent", "busy", "%", 1.0),
    ("sm_clock_mhz", "clock", "MHz", 1.0),
    ("power_w", "power", "W", 1.0),
    ("temperature_c", "temperature", "°C", 1.0),
    ("memory_used_bytes", "memory", "GB", 1e9),
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
# pixels of a panel with its name
PANEL = 58


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What one sensor said."""

    name: str
    unit: str
    # seconds since the reading began, and the value
    readings: tuple[tuple[float, float], ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value."""
        values = [value for _, value in self.readings]
        return min(values), max(values)

    @property
    def told(self) -> str:
        """Both in words, one of them where they are the same."""
        low, high = map(show.number, self.ends)
        return f"{low} {self.unit}" if low == high else f"{low} to {high} {self.unit}"


def read_panels(sensors: Sequence[Sensors]) -> tuple[Panel, ...]:
    """Each sensor that said something at least twice."""
    panels = (
        Panel(name=name, unit=unit, readings=tuple((one.at_s, value / scale) for one in sensors if (value := getattr(one, field)) is not None))
        for field, name, unit, scale in PANELS
    )  # fmt: skip
    return tuple(panel for panel in panels if len(panel.readings) > 1)


def draw_sensors(panels: Sequence[Panel], name: str) -> Figure | None:
    """Each sensor over time in a panel of its own, from its least to its largest value."""
    if not panels:
        return None
    height = PANEL * len(panels)
    y = {
        "field": "y",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, height], "reverse": True, "nice": False},
    }
    values = [
        {"at": at, "name": panel.name, "told": f"{show.number(value)} {panel.unit}", "y": index * PANEL + PANEL - 6 - 26 * _share(value, panel.ends)}
        for index, panel in enumerate(panels)
        for at, value in theme.thin(panel.readings)
    ]  # fmt: skip
    lines: Spec = {
        "data": theme.rows(values),
        "mark": {"type": "line", "color": theme.BLUE, "strokeWidth": 1.6},
        "encoding": {
            "x": theme.quantity("at", "seconds since the reading began"), "y": y, "detail": {"field": "name", "type": "nominal"},
            "tooltip": [{"field": one, "type": "nominal"} for one in ("name", "told")],
        },
    }  # fmt: skip
    names = [{"name": panel.name, "told": panel.told, "y": index * PANEL + 12} for index, panel in enumerate(panels)]
    told = "; ".join(f"{panel.name} {panel.told}" for panel in panels)
    return theme.finish(
        {"layer": [lines, *write_names(names, y)]}, name, "The device while the step ran", f"{told}.", height
    )


def _share(value: float, ends: tuple[float, float]) -> float:
    """How high between the ends; in the middle where they read the same."""
    low, high = ends
    return 0.5 if show.number(low) == show.number(high) else (value - low) / (high - low)


def draw_memory(memory: Memory, name: str) -> Figure | None:
    """Bytes that the allocator held."""
    events = theme.thin(memory.timeline)
    if len(events) < 2:
        return None
    scale, unit = show.unit_for(max(one.allocated_bytes for one in events), show.BYTES)
    clock, seconds = show.unit_for(max(one.at_s for one in events), show.TIMES)
    values = [
        {"at": one.at_s / clock, "value": one.allocated_bytes / scale, "told": show.size(one.allocated_bytes)}
        for one in events
    ]
    line = {"color": theme.BLUE, "strokeWidth": 1.4}
    spec: Spec = {
        "data": theme.rows(values),
        "mark": {"type": "area", "interpolate": "step-after", "color": theme.SKY, "opacity": 0.5, "line": line},
        "encoding": {
            "x": theme.quantity("at", f"time ({seconds})"), "y": theme.quantity("value", f"allocated ({unit})"),
            "tooltip": [{"field": "told", "type": "nominal"}],
        },
    }  # fmt: skip
    told = f"The allocator's peak is {show.size(memory.peak_bytes)}."
    return theme.finish(spec, name, "Allocated memory over one step", told, 180)


def draw_step(stretches: Sequence[Stretch], name: str) -> Figure | None:
    """One step from its start to its end: a lane for each kernel that was told apart and for each other part."""
    by_lane: dict[tuple[str, str], list[Stretch]] = {}
    for one in stretches:
        by_lane.setdefault((one.part, one.kernel), []).append(one)
    end = max((one.start_s + one.seconds for one in stretches), default=0.0)
    if end <= 0:
        return None
    scale, unit = show.unit_for(end, show.TIMES)
    lanes = []
    for (part, kernel), mine in by_lane.items():
        kind = part if part in COLOURS else "kernels"
        spans = tuple(
            Mark(
                kind=kind,
                low=one.start_s / scale,
                high=(one.start_s + one.seconds) / scale,
                told=show.time(one.seconds),
            )
            for one in mine
        )
        told = show.time(sum(one.seconds for one in mine))
        lanes.append(Lane(name=shorten_kernel(kernel) if kernel else part, rows=(spans,), told=told))
    across = theme.quantity("low", f"time since the step began ({unit})", domain=[0, end / scale])
    spec, height = draw_lanes(lanes, COLOURS, across, row=14, thick=12)
    told = "; ".join(f"{lane.name} {lane.told}" for lane in lanes)
    return theme.finish(spec, name, "One step, under the profiler", f"{told}.", height)


def draw_check(chart: Chart, name: str) -> Figure | None:
    """The figure of a workload's own check."""
    values = [
        {"kind": f"{index + 1}. {series.label}" if _repeats(chart, series.label) else series.label, "x": x, "y": y}
        for index, series in enumerate(chart.series)
        for x, y in theme.thin(list(zip(series.x, series.y, strict=False)))
        if y is not None and (y > 0 or not chart.log_y)
    ]
    if not values:
        return None
    labels = list(dict.fromkeys(str(one["kind"]) for one in values))
    palette = {label: theme.SERIES[index % len(theme.SERIES)] for index, label in enumerate(labels)}
    dashes = [list(DASHES[index % len(DASHES)]) for index in range(len(labels))]
    down = {"zero": False, "type": "log"} if chart.log_y else {"zero": False}
    # a line between many points needs no points; few points need them to be seen
    point = len(values) <= 40 * len(labels)
    spec: Spec = {
        "data": theme.rows(values),
        "mark": {"type": "line", "strokeWidth": 2, "point": point},
        "encoding": {
            "x": theme.quantity("x", theme.clean(chart.x_title), zero=False),
            "y": theme.quantity("y", theme.clean(chart.y_title), axis={"format": "~g", "grid": not chart.log_y}, **down),
            "color": {**theme.colours(palette), "legend": {"symbolType": "stroke"}},
            "strokeDash": {"field": "kind", "type": "nominal", "scale": {"domain": [theme.clean(one) for one in labels], "range": dashes}},
            "tooltip": [{"field": "kind", "type": "nominal"}, {"field": "x", "type": "quantitative"}, {"field": "y", "type": "quantitative"}],
        },
    }  # fmt: skip
    title = show.clean(chart.title)
    told = f"{title}: {show.clean(chart.y_title)} over {show.clean(chart.x_title)} for {', '.join(labels)}."
    return theme.finish(spec, name, title, told, 220)


def _repeats(chart: Chart, label: str) -> bool:
    return sum(series.label == label for series in chart.series) > 1
