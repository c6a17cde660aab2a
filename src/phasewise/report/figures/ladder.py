"""Times on one logarithmic axis: your code, kept phases, other ways, and the best possible; of one case, or of all workloads."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.records.analyse import CaseResult, Rung
from phasewise.report import format as show
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme
from phasewise.report.figures.lanes import Lane, Mark, draw_lanes
from phasewise.report.figures.theme import BLUE, GREEN, GREY, ORANGE

KINDS = {"baseline": "your code", "phase": "phase", "peer": "another way", "best": "best possible"}
COLOURS = {"your code": GREY, "phase": BLUE, "another way": ORANGE, "best possible": GREEN}
OVERVIEW = {"your code": GREY, "now": BLUE, "strongest other way": ORANGE, "best possible": GREEN}


def draw_overview(ends: Sequence[tuple[str, CaseResult]], name: str) -> Figure | None:
    """A lane a run, by its name: its first case from the baseline to the best possible."""
    lanes: list[Lane] = []
    for run, case in ends:
        ours = [one for one in case.ladder if one.kind in ("baseline", "phase")]
        peers = [one for one in case.ladder if one.kind == "peer"]
        strongest = min(peers, key=lambda one: one.time_s.estimate, default=None)
        shown = [(one, "your code") for one in ours[:1] if one.kind == "baseline"]
        shown += [(one, "now") for one in ours[-1:]]
        shown += [(strongest, "strongest other way")] if strongest is not None else []
        shown += [(one, "best possible") for one in case.ladder if one.kind == "best"]
        marks = tuple(_dot(one, kind) for one, kind in shown)
        if marks:
            now = next((show.time(one.time_s.estimate) for one, kind in shown if kind == "now"), "")
            lanes.append(Lane(name=run, rows=(marks,), told=now))
    if not lanes:
        return None
    spec, height = draw_lanes(lanes, OVERVIEW, _axis([mark for lane in lanes for row in lane.rows for mark in row]))
    told = "; ".join(f"{lane.name}, {mark.kind}: {mark.told}" for lane in lanes for row in lane.rows for mark in row)
    caption = (
        "One step of each workload's first case: where it came from, where it is, and how far it could go (log scale)"
    )
    return theme.finish(spec, name, caption, told, height)


def draw_ladder(case: CaseResult, name: str) -> Figure | None:
    """One dot a time, with its interval."""
    rungs = [one for one in case.ladder if one.time_s.low > 0]
    if len(rungs) < 2:
        return None
    marks = [_dot(one, KINDS.get(one.kind, KINDS["phase"])) for one in rungs]
    lanes = [Lane(name=one.name, rows=((mark,),), told=mark.told) for one, mark in zip(rungs, marks, strict=True)]
    spec, height = draw_lanes(lanes, COLOURS, _axis(marks))
    told = ", ".join(f"{show.clean(one.name)} {show.time_interval(one.time_s)}" for one in rungs)
    return theme.finish(
        spec, name, "Times of one step (log scale); the last phase is what runs", f"Step times: {told}.", height
    )


def _dot(rung: Rung, kind: str) -> Mark:
    time = rung.time_s
    return Mark(kind=kind, low=time.low, high=time.high, middle=time.estimate, told=show.time(time.estimate))


def _axis(marks: Sequence[Mark]) -> theme.Spec:
    low, high = min(mark.low for mark in marks) / 1.3, max(mark.high for mark in marks) * 1.3
    return theme.quantity("low", type="log", domain=[low, high], axis=theme.log_ticks(low, high, tell_time))


def tell_time(seconds: float) -> str:
    """A round time, as an axis says it."""
    scale, unit = show.unit_for(seconds, show.TIMES)
    return f"{show.number(float(f'{seconds / scale:.6g}'))} {unit}"
