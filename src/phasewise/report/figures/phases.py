"""Charts of the plan against the outcome: roadmap, waterfall, predictions."""

from __future__ import annotations

from typing import Any

import altair as alt

from phasewise.records.analyse import CaseResult, Row, Score
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


def draw_waterfall(case: CaseResult, name: str) -> Figure | None:
    """The time of a step from the baseline down the stack, each bar from the parent's time to its own."""
    chain = _chain(case)
    timed = [row for row in chain if row.time_s is not None and row.time_s.estimate > 0]
    if len(timed) < 2:
        return None
    times = [row.time_s for row in timed if row.time_s is not None]
    scale, unit = show.unit_for(max(one.estimate for one in times), show.TIMES)
    # on a linear axis a bar under a tenth of the longest can't be read any more
    log = max(one.high for one in times) > 10 * min(one.low for one in times)
    floor = 0.6 * min(one.low for one in times) / scale if log else 0.0
    values = []
    for index, (row, one) in enumerate(zip(timed, times, strict=True)):
        before = times[index - 1].estimate / scale if index else floor
        values.append(
            {
                "name": row.variant, "from": before, "to": one.estimate / scale, "low": one.low / scale,
                "high": one.high / scale, "right": max(before, one.high / scale), "label": f"{show.time(one.estimate)}{_render_ratio(row)}",
                "kind": "baseline" if not index else "less time" if one.estimate / scale <= before else "more time",
            }
        )  # fmt: skip
    kinds = ("baseline", "less time", "more time")
    axis = alt.X(
        "from:Q",
        title=f"time of one step ({unit}{', log scale' if log else ''})",
        scale=alt.Scale(type="log", domainMin=floor, nice=False) if log else alt.Scale(zero=True),
        axis=alt.Axis(format="~g", tickCount=6, grid=not log),
    )
    base = alt.Chart(theme.rows(values)).encode(
        y=theme.names_axis([row.variant for row in timed]),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("label:N"), *_numbers("low", "high")],
    )
    colour = alt.Color("kind:N", scale=theme.colours(kinds, (theme.GREY, theme.BLUE, theme.RED)))
    bars = base.mark_bar().encode(x=axis, x2="to:Q", color=colour)
    whiskers = base.mark_rule(color=theme.INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    labels = base.mark_text(align="left", dx=6).encode(x="right:Q", text="label:N")
    chart = alt.layer(bars, whiskers, labels).properties(width=theme.WIDTH - 220, height=alt.Step(30))
    told = ", ".join(f"{row.variant} {show.time_interval(row.time_s)}" for row in timed)
    return theme.finish(
        chart, name, "Waterfall: the time of one step from the baseline to the end of the stack", f"Step times: {told}."
    )


def _render_ratio(row: Row) -> str:
    """The ratio beside a bar as it was measured: over the baseline, else over the bar before."""
    over, parent = row.verdict.over_baseline, row.verdict.over_parent
    if over is not None:
        return f" · {show.ratio(over.estimate)}{' (chained)' if row.verdict.chained else ''}"
    return "" if parent is None else f" · {show.ratio(parent.estimate)} over the one before"


def _chain(case: CaseResult) -> tuple[Row, ...]:
    """The stack's rows, baseline first, by the parents that they were really compared with."""
    by_variant = {row.variant: row for row in case.rows}
    chain: list[Row] = []
    row = by_variant.get(case.stack or "")
    while row is not None and row not in chain:
        chain.insert(0, row)
        row = by_variant.get(row.parent or "")
    return tuple(chain)


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
