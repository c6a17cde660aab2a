"""One look for all charts: a palette that colour-blind readers can tell apart, few lines, plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from phasewise.report.blocks import Figure
from phasewise.report.format import clean

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
WIDTH = 620
# the version that Altair writes for, as vl-convert calls it
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
# rows of a chart beyond which nobody reads it
MOST_ROWS = 40
MOST_POINTS = 400

CONFIG: dict[str, Any] = {
    "font": "Arial, 'Liberation Sans', Helvetica, sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": SOFT,
        "gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "labelLimit": 220, "titlePadding": 8,
    },
    "legend": {"labelFontSize": 12, "labelColor": INK, "orient": "top", "title": None, "labelLimit": 260, "columns": 4},
    "text": {"fontSize": 12, "color": INK},
    "title": {"fontSize": 13, "fontWeight": "normal", "color": SOFT, "anchor": "start"},
}  # fmt: skip


def rows(values: Sequence[Mapping[str, Any]]) -> alt.Data:
    """Inline data; every text in it is made printable."""
    return alt.Data(
        values=[{key: clean(one) if isinstance(one, str) else one for key, one in row.items()} for row in values]
    )


def colours(domain: Sequence[str], palette: Sequence[str]) -> alt.Scale:
    """A fixed colour for each name."""
    return alt.Scale(domain=[clean(name) for name in domain], range=list(palette))


def names_axis(domain: Sequence[str], title: str | None = None, **options: Any) -> alt.Y:
    """Names down the side, in the order given."""
    axis = alt.Axis(title=title, grid=False, ticks=False, domain=False, labelPadding=6, **options)
    return alt.Y("name:N", axis=axis, scale=alt.Scale(domain=list(dict.fromkeys(map(clean, domain))), padding=0.35))


def thin(values: Sequence[Any], most: int = MOST_POINTS) -> Sequence[Any]:
    """Every n-th value and the last one, so that a long recording stays a small file."""
    if len(values) <= most:
        return values
    stride = -(-len(values) // most)
    return [*values[:-1:stride], values[-1]]


def slug(text: str) -> str:
    """A file name or anchor: lower-case letters, digits and dashes only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "unnamed"


def finish(chart: Any, name: str, caption: str, alternative: str) -> Figure:
    """The chart as a plain Vega-Lite specification with the look of all."""
    # what each part is made of was checked when it was made
    spec = chart.to_dict(validate=False)
    # an address that nobody needs: the renderers are told what this is
    del spec["$schema"]
    spec["config"] = CONFIG
    spec["description"] = clean(alternative)
    return Figure(name=slug(name), caption=caption, alternative=alternative, spec=spec)
