"""Charts of the plan against the outcome: roadmap and predictions."""

from __future__ import annotations

from typing import Any

import altair as alt

from phasewise.records.analyse import CaseResult
from phasewise.records.ledger import Score
from phasewise.records.plan import PlannedPhase
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme

LANES = ("documented", "expected by the author", "predicted from the profile", "measured")
LANE_COLOURS = (theme.GREY, theme.SKY, theme.ORANGE, theme.BLUE)


def draw_roadmap(case: CaseResult | None, phases: tuple[PlannedPhase, ...], name: str) -> Figure | None:
    """The gain of each phase over its parent: what was promised, expected, predicted and measured."""
    by_variant = {row.variant: row for row in (case.rows if case else ())}
    values: list[dict[str, Any]] = []
    for phase in phases[: theme.MOST_ROWS]:
        row = by_variant.get(phase.variant)
        predicted = row.predicted if row else None
        measured = row.verdict.over_parent if row else None
        lanes = (
            phase.documented,
            phase.expect,
            (predicted.low, predicted.high) if predicted and predicted.low and predicted.high else None,
            (measured.low, measured.high) if measured else None,
        )
        for lane, pair in zip(LANES, lanes, strict=True):
            if pair is not None and min(pair) > 0:
                middle = measured.estimate if lane == "measured" and measured else None
                values.append({"name": phase.variant, "lane": lane, "low": pair[0], "high": pair[1], "middle": middle})
    if not values:
        return None
    colour = alt.Color("lane:N", scale=theme.colours(LANES, LANE_COLOURS), legend=alt.Legend(symbolType="square"))
    horizontal = alt.X(
        "low:Q",
        title="speed-up over the parent (log scale)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    base = alt.Chart(theme.rows(values)).encode(
        y=theme.names_axis([phase.variant for phase in phases[: theme.MOST_ROWS]]),
        yOffset=alt.YOffset("lane:N", scale=alt.Scale(domain=list(LANES))),
        color=colour,
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("lane:N"), *_numbers("low", "middle", "high")],
    )
    spans = base.mark_rule(strokeWidth=4, strokeCap="round").encode(x=horizontal, x2="high:Q")
    points = base.mark_circle(size=70, opacity=1).encode(x="middle:Q")
    points = points.transform_filter("isValid(datum.middle)")
    one = alt.Chart(theme.rows([{"x": 1}])).mark_rule(color=theme.SOFT, strokeDash=[4, 3]).encode(x="x:Q")
    chart = alt.layer(one, spans, points).properties(width=theme.WIDTH - 140, height=alt.Step(8, **{"for": "offset"}))
    told = "; ".join(
        f"{row.variant} {show.ratio_interval(row.verdict.over_parent)}"
        for row in by_variant.values()
        if row.verdict.over_parent is not None and row.variant in {phase.variant for phase in phases}
    )
    return theme.finish(
        chart,
        name,
        "Roadmap: what each phase was to gain over its parent, and what it did",
        f"Intervals of the speed-up of each phase over its parent. Measured: {told or 'nothing yet'}.",
    )


def draw_predictions(scores: tuple[Score, ...], name: str) -> Figure | None:
    """Each predicted interval at the height of what was measured: on the diagonal is right."""
    values: list[dict[str, Any]] = [
        {
            "label": f"{score.prediction.variant} ({score.prediction.case})", "low": low, "high": high, "measured": score.measured.estimate, "measured_low": score.measured.low,
            "measured_high": score.measured.high, "outcome": "inside" if score.inside else "outside",
        }
        for score in scores
        for low, high in [(score.prediction.low or 0.0, score.prediction.high or 0.0)]
        if score.inside is not None and score.measured is not None and min(low, score.measured.low) > 0
    ]  # fmt: skip
    if not values:
        return None
    ends = [value[key] for value in values for key in ("low", "high", "measured_low", "measured_high")]
    domain = [0.9 * min(*ends, 1.0), 1.1 * max(ends)]
    log = alt.Scale(type="log", domain=domain, nice=False)
    axis = alt.Axis(format="~g", tickCount=6)
    ink = alt.Color("outcome:N", scale=theme.colours(("inside", "outside"), (theme.BLUE, theme.RED)))
    base = alt.Chart(theme.rows(values)).encode(
        y=alt.Y("measured:Q", title="measured speed-up", scale=log, axis=axis),
        color=ink,
        tooltip=[alt.Tooltip("label:N"), *_numbers("low", "high", "measured")],
    )
    ends_of_line = [{"x": one, "y": one} for one in domain]
    diagonal = alt.Chart(theme.rows(ends_of_line)).mark_line(color=theme.SOFT, strokeDash=[4, 3])
    diagonal = diagonal.encode(x=alt.X("x:Q", scale=log), y=alt.Y("y:Q", scale=log))
    across = alt.X("low:Q", title="predicted speed-up", scale=log, axis=axis)
    spans = base.mark_rule(strokeWidth=4, strokeCap="round").encode(x=across, x2="high:Q")
    labels = base.mark_text(align="left", dx=6, dy=-9, fontSize=11, limit=180).encode(x="low:Q", text="label:N")
    chart = alt.layer(diagonal, spans, labels).properties(width=420, height=320)
    hits = sum(value["outcome"] == "inside" for value in values)
    return theme.finish(
        chart,
        name,
        "Predictions against outcomes: an interval that crosses the diagonal held what was measured",
        f"{hits} of {len(values)} predicted intervals held the measured speed-up.",
    )


def _numbers(*fields: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{field}:Q", format=".3~g") for field in fields]
