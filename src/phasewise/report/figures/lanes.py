"""The form of most charts: a lane a name, with the name and its number above what is drawn, so that a narrow screen shows all three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasewise.report.figures import theme
from phasewise.report.figures.theme import Spec

# pixels of a line of text, and between two lanes
LINE, GAP = 17, 9


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A span of the axis, and a point on it if there is one."""

    kind: str
    low: float
    high: float
    middle: float | None = None
    # as the table beside the chart says it
    told: str = ""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A name with what belongs to it, row below row."""

    name: str
    rows: tuple[tuple[Mark, ...], ...]
    # at the right end of the line of the name
    told: str = ""


def draw_lanes(
    lanes: Sequence[Lane],
    palette: Mapping[str, str],
    across: Spec,
    *,
    row: int = 13,
    thick: int = 4,
    line_at: float | None = None,
) -> tuple[Spec, float]:
    """The chart and its height in pixels; `across` is the axis, over the field `low`; `line_at` a value to compare with."""
    names: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    top = 0.0
    for lane in lanes:
        names.append({"name": lane.name, "told": lane.told, "y": top + LINE / 2})
        top += LINE
        for index, held in enumerate(lane.rows):
            marks += [
                {"name": lane.name, "kind": mark.kind, "told": mark.told, "low": mark.low, "high": mark.high, "middle": mark.middle,
                 "y": top + (index + 0.5) * row}
                for mark in held
            ]  # fmt: skip
        top += len(lane.rows) * row + GAP
    down = {
        "field": "y",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, top], "reverse": True, "nice": False},
    }
    used = {kind: colour for kind, colour in palette.items() if any(mark["kind"] == kind for mark in marks)}
    shared: Spec = {"y": down, "color": theme.colours(used, legend=len(used) > 1), "tooltip": [
        {"field": field, "type": "nominal"} for field in ("name", "kind", "told")]}  # fmt: skip
    spans = {
        "data": theme.rows(marks), "mark": {"type": "rule", "strokeWidth": thick},
        "encoding": {**shared, "x": across, "x2": {"field": "high"}},
    }  # fmt: skip
    points = {
        "data": theme.rows([mark for mark in marks if mark["middle"] is not None]),
        "mark": {"type": "circle", "size": 80, "opacity": 1},
        "encoding": {**shared, "x": {**across, "field": "middle"}},
    }  # fmt: skip
    layers = [*_compare(line_at, across), spans, points, *write_names(names, down)]
    return {"layer": layers}, top


def _compare(value: float | None, across: Spec) -> list[Spec]:
    if value is None:
        return []
    rule = {"type": "rule", "color": theme.SOFT, "strokeDash": [4, 3]}
    return [{"data": theme.rows([{"low": value}]), "mark": rule, "encoding": {"x": across}}]


def write_names(names: Sequence[Mapping[str, Any]], down: Spec) -> list[Spec]:
    """Each name at the left end of its line, and its number at the right."""
    data = theme.rows(names)
    told = theme.rows([one for one in names if one["told"]])
    left = theme.write(data, {"value": 0}, down, "name", align="left", limit=290)
    right = theme.write(told, {"value": "width"}, down, "told", align="right", limit=170, fontWeight="bold")
    return [*left, *right] if told["values"] else left
