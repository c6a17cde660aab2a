"""One look for all charts: a palette that colour-blind readers can tell apart, few lines, plain words.

A chart is a Vega-Lite specification, made as what it is: a dictionary. All are drawn as wide as a phone, so that one drawing can be
read there, and stand beside what they show on a wider screen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phasewise.report.blocks import Figure
from phasewise.report.format import clean

Spec = dict[str, Any]

# Okabe and Ito's colours (https://jfly.uni-koeln.de/color/), yellow left out: too faint on white
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, GREY = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#56b4e9",
    "#cc79a7",
    "#8a8f98",
)
INK, SOFT, LINE = "#1c2430", "#5b6472", "#dfe3e8"
SERIES = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY, INK)
# pixels, axes and all
WIDTH = 420
# rows of a chart beyond which nobody reads it
MOST_ROWS = 40
MOST_POINTS = 200
MOST_TICKS = 5

CONFIG: dict[str, Any] = {
    "font": "Arial, 'Liberation Sans', Helvetica, sans-serif",
    "background": "white",
    # the words that stand in for a chart are those of its page
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": SOFT,
        "gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "titlePadding": 6,
    },
    "legend": {"labelFontSize": 12, "labelColor": INK, "orient": "top", "title": None, "labelLimit": 200, "columns": 2, "padding": 2},
    "text": {"fontSize": 13, "color": INK},
}  # fmt: skip


def rows(values: Sequence[Mapping[str, Any]]) -> Spec:
    """Inline data; every text in it is made printable."""
    return {
        "values": [{key: clean(one) if isinstance(one, str) else one for key, one in row.items()} for row in values]
    }


def colours(palette: Mapping[str, str], *, legend: bool = True) -> Spec:
    """A fixed colour for each kind, told in a legend."""
    scale = {"domain": [clean(kind) for kind in palette], "range": list(palette.values())}
    told = {"symbolType": "square"} if legend else None
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": told}


def quantity(field: str, title: str | None = None, *, axis: Mapping[str, Any] | None = None, **scale: Any) -> Spec:
    """A number along an axis."""
    told = {"tickCount": MOST_TICKS, **(axis or {})}
    return {"field": field, "type": "quantitative", "title": title, "scale": {"nice": False, **scale}, "axis": told}


def log_ticks(low: float, high: float, tell: Callable[[float], str]) -> dict[str, Any]:
    """An axis with a few round values between two positive ends, each in words."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = range(first, last + 1, max(1, -(-(last - first + 1) // MOST_TICKS)))
    values = [10.0**power for power in decades]
    if len(values) < 3:
        span = range(first - 1, last + 1)
        values = [step * 10.0**power for power in span for step in (1, 2, 5) if low <= step * 10.0**power <= high]
    if len(values) < 2:
        values = [low, high]
    told = " : ".join(f"datum.value == {value!r} ? '{tell(value)}'" for value in values[-2 * MOST_TICKS :])
    return {"values": values[-2 * MOST_TICKS :], "labelExpr": f"{told} : ''", "labelOverlap": True}


def write(data: Spec, x: Spec, y: Spec, field: str, **mark: Any) -> list[Spec]:
    """Texts with a white edge, so that lines beneath leave them readable."""
    text = {"type": "text", **mark}
    encoding = {"x": x, "y": y, "text": {"field": field, "type": "nominal"}}
    edge = {**text, "stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
    return [{"data": data, "mark": one, "encoding": encoding} for one in (edge, text)]


def thin(values: Sequence[Any], most: int = MOST_POINTS) -> Sequence[Any]:
    """Every n-th value and the last one, so that a long recording stays a small file."""
    if len(values) <= most:
        return values
    stride = -(-len(values) // most)
    return [*values[:-1:stride], values[-1]]


def slug(text: str) -> str:
    """A file name or anchor: lower-case letters, digits and dashes only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "unnamed"


def finish(spec: Spec, name: str, caption: str, alternative: str, height: float) -> Figure:
    """The chart with the look of all, `height` pixels high between its axes."""
    whole = {
        **spec, "width": WIDTH, "height": height, "autosize": {"type": "fit-x", "contains": "padding"}, "config": CONFIG,
        "description": clean(alternative),
    }  # fmt: skip
    return Figure(name=slug(name), caption=caption, alternative=alternative, spec=whole)
