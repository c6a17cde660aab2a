"""Charts of the plan against the outcome: roadmap and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phasewise.records.analyse import CaseResult
from phasewise.records.base import Interval
from phasewise.records.ledger import Score
from phasewise.records.plan import PlannedPhase
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Figure
from phasewise.report.figures import theme
from phasewise.report.figures.lanes import Lane, Mark, draw_lanes

DOCUMENTED, EXPECTED, PREDICTED, MEASURED = (
    "documented",
    "expected by the author",
    "predicted from the profile",
    "measured",
)
PALETTE = {DOCUMENTED: theme.GREY, EXPECTED: theme.SKY, PREDICTED: theme.ORANGE, MEASURED: theme.BLUE}
# a guess that goes further than so many times beyond all that was measured is cut off there
BEYOND = 10.0
# the basis of what an author expected
AUTHOR = "author"


def draw_roadmap(case: CaseResult | None, phases: tuple[PlannedPhase, ...], name: str) -> Figure | None:
    """The gain of each phase over its parent: what was promised, expected, predicted and measured."""
    by_variant = {row.variant: row for row in (case.rows if case else ())}
    lanes = []
    for phase in phases[: theme.MOST_ROWS]:
        row = by_variant.get(phase.variant)
        predicted = row.predicted if row else None
        measured = row.verdict.over_parent if row else None
        marks = [
            _range(DOCUMENTED, (row.documented if row else None) or phase.documented),
            _range(EXPECTED, phase.expect),
            _predict(predicted.low, predicted.high, sentences.prediction(predicted)) if predicted else None,
            _measure(measured),
        ]
        found = tuple((mark,) for mark in marks if mark is not None)
        if found:
            lanes.append(Lane(name=phase.variant, rows=found, told=show.ratio_interval(measured) if measured else ""))
    told = "; ".join(f"{lane.name} {lane.told}" for lane in lanes if lane.told)
    return _finish(
        lanes,
        name,
        "What each phase was to gain over its parent, and what it did (log scale); a bar at the edge goes on beyond it",
        f"Intervals of the speed-up of each phase over its parent. Measured: {told or 'nothing yet'}.",
    )


def draw_predictions(scores: tuple[Score, ...], name: str) -> Figure | None:
    """Each interval that a rule predicted above what was measured; an author's expectation is no prediction."""
    made = [
        score
        for score in scores
        if score.inside is not None and score.measured is not None and score.prediction.basis != AUTHOR
    ]
    lanes = []
    for score in made:
        marks = (
            _predict(score.prediction.low, score.prediction.high, sentences.prediction(score.prediction)),
            _measure(score.measured),
        )
        found = tuple((mark,) for mark in marks if mark is not None)
        label = f"{score.prediction.variant} ({score.prediction.case})"
        if len(found) == len(marks):
            lanes.append(Lane(name=label, rows=found, told="inside" if score.inside else "outside"))
    hits = sum(lane.told == "inside" for lane in lanes)
    told = f"{hits} of {len(lanes)} predicted intervals held the measured speed-up."
    return _finish(lanes[: theme.MOST_ROWS], name, "Predictions against outcomes (speed-up, log scale)", told)


def _finish(lanes: Sequence[Lane], name: str, caption: str, told: str) -> Figure | None:
    marks = [mark for lane in lanes for row in lane.rows for mark in row]
    if not marks:
        return None
    sure = [mark for mark in marks if mark.kind == MEASURED] or marks
    low = max(min(mark.low for mark in marks), min(mark.low for mark in sure) / BEYOND)
    high = min(max(mark.high for mark in marks), max(mark.high for mark in sure) * BEYOND)
    low, high = min(low, 1.0) / 1.15, max(high, 1.0) * 1.15
    ticks = theme.log_ticks(low, high, lambda ratio: f"{ratio:g}×")
    across = theme.quantity("low", type="log", domain=[low, high], axis=ticks)
    # what goes beyond ends at the edge; marks are not clipped by the drawing, whose clips are numbered anew in each process
    shown = [
        replace(lane, rows=tuple(tuple(_cut(mark, low, high) for mark in row) for row in lane.rows)) for lane in lanes
    ]
    spec, height = draw_lanes(shown, PALETTE, across, row=8, line_at=1.0)
    return theme.finish(spec, name, caption, told, height)


def _cut(mark: Mark, low: float, high: float) -> Mark:
    return replace(mark, low=min(max(mark.low, low), high), high=max(min(mark.high, high), low))


def _range(kind: str, pair: tuple[float, float] | None) -> Mark | None:
    return Mark(kind=kind, low=pair[0], high=pair[1], told=show.ratio_range(pair)) if pair and min(pair) > 0 else None


def _predict(low: float | None, high: float | None, told: str) -> Mark | None:
    """Only where there was a prediction: a rule may have refused to make one."""
    return Mark(kind=PREDICTED, low=low, high=high, told=told) if low and high and min(low, high) > 0 else None


def _measure(over: Interval | None) -> Mark | None:
    if over is None or min(over.low, over.estimate) <= 0:
        return None
    return Mark(kind=MEASURED, low=over.low, high=over.high, middle=over.estimate, told=show.ratio_interval(over))
