"""Times on one logarithmic axis: your code, kept phases, other ways, and the best possible; of one case, or of all workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from phasewise.records.analyse import CaseResult
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme

KINDS = {"baseline": "your code", "phase": "phase", "peer": "another way", "best": "best possible"}
COLOURS = (theme.GREY, theme.BLUE, theme.ORANGE, theme.GREEN)


def draw_overview(ends: Sequence[tuple[str, CaseResult]], name: str) -> Figure | None:
    """A row a run, by its name: its first case from the baseline to the best possible."""
    values: list[dict[str, Any]] = []
    for run, case in ends:
        ours = [one for one in case.ladder if one.kind in ("baseline", "phase")]
        peers = [one for one in case.ladder if one.kind == "peer"]
        strongest = min(peers, key=lambda one: one.time_s.estimate, default=None)
        best = [one for one in case.ladder if one.kind == "best"]
        first = [(ours[0], "your code")] if ours and ours[0].kind == "baseline" else []
        shown = [*first, *((one, "now") for one in ours[-1:]), *((one, "best possible") for one in best)]
        shown += [(strongest, "strongest other way")] if strongest is not None else []
        values += [
            {"name": run, "kind": kind, "time": one.time_s.estimate * 1e3, "told": show.time(one.time_s.estimate)}
            for one, kind in shown
        ]
    if not values:
        return None
    kinds = ("your code", "now", "strongest other way", "best possible")
    base = alt.Chart(theme.rows(values)).encode(y=theme.names_axis([run for run, _ in ends]))
    across = alt.X(
        "time:Q",
        title="time of one step of the first case (ms, log scale)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    dots = base.mark_circle(size=110, opacity=1).encode(
        x=across,
        color=alt.Color("kind:N", scale=theme.colours(kinds, COLOURS)),
        tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("told:N")],
    )
    chart = dots.properties(width=theme.WIDTH - 140, height=alt.Step(34))
    told = "; ".join(f"{value['name']}, {value['kind']}: {value['told']}" for value in values)
    return theme.finish(chart, name, "Where each workload came from, where it is, and how far it could go", told)


def draw_ladder(case: CaseResult, name: str) -> Figure | None:
    """One dot a time, with its interval; the value stands in its name, so that a narrow screen shows it first."""
    rungs = [one for one in case.ladder if one.time_s.low > 0]
    if len(rungs) < 2:
        return None
    scale, unit = show.unit_for(max(one.time_s.estimate for one in rungs), show.TIMES)
    labels = [f"{one.name}  {show.time(one.time_s.estimate)}" for one in rungs]
    values: list[dict[str, Any]] = [
        {
            "name": label, "kind": KINDS.get(one.kind, KINDS["phase"]), "time": one.time_s.estimate / scale,
            "low": one.time_s.low / scale, "high": one.time_s.high / scale, "ratio": show.ratio_interval(one.ratio),
        }
        for one, label in zip(rungs, labels, strict=True)
    ]  # fmt: skip
    across = alt.X(
        "time:Q",
        title=f"time of one step ({unit}, log scale)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format="~g", tickCount=5),
    )
    base = alt.Chart(theme.rows(values)).encode(
        y=theme.names_axis(labels, labelLimit=300),
        color=alt.Color("kind:N", scale=theme.colours(tuple(KINDS.values()), COLOURS)),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("ratio:N", title="ratio in the table")],
    )
    spans = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = base.mark_circle(size=90, opacity=1).encode(x=across)
    chart = alt.layer(spans, dots).properties(width=theme.WIDTH - 260, height=alt.Step(24))
    told = ", ".join(f"{show.clean(one.name)} {show.time_interval(one.time_s)}" for one in rungs)
    return theme.finish(
        chart,
        name,
        "Times of one step, each by the ratio measured side by side with the next: single runs of one program differ by more. The last phase is what runs",
        f"Step times: {told}.",
    )
