"""What holds the step back, what to do next, and how well earlier predictions did."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, Finding
from phasewise.records.ledger import Ledger
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import (
    Block,
    Inline,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    beside,
    code,
    columns,
)
from phasewise.report.figures.phases import draw_predictions
from phasewise.report.rows import kept_rows
from phasewise.report.sections.common import folded_by_case, nothing, phase_link
from phasewise.run import Run

SCORE_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "muted"}


def render_findings(run: Run) -> Section:
    """The findings on the end of each stack."""
    blocks = folded_by_case(run.results, "findings", lambda case: _findings(run, case))
    return Section("findings", "Findings", blocks or nothing("Nothing has been analysed yet."))


def _findings(run: Run, case: CaseResult) -> tuple[Block, ...]:
    order = [case.stack or "", *(row.variant for row in reversed(kept_rows(case)))]
    variant = next((name for name in order if run[name].analysed(case.case)), None)
    analysis = run[variant or ""].analysed(case.case)
    if variant is None or analysis is None:
        return nothing("No findings are on record for this case.")
    found = sorted(
        (one for one in analysis.findings if one.outcome == "found"), key=lambda one: (-one.seconds, one.finding)
    )
    blocks: list[Block] = [Paragraph(("Findings on ", code(variant), "; they claim disjoint parts of its step."))]
    if analysis.floor_fraction is not None:
        kind = f" ({sentences.floor(analysis.floor_kind)})" if analysis.floor_kind else ""
        share = show.percent(analysis.floor_fraction)
        blocks.append(Paragraph(f"The best possible time{kind} is {share} of what the step takes."))
    if found:
        titles = columns(
            "Finding", "#Holds", "#Share", "#Gain if cured", "Basis", "Seen", "Evidence", "Advice", "Phase"
        )
        blocks.append(Table(f"What holds {case.case} back", titles, tuple(_row(one) for one in found)))
    silent = [one for one in analysis.findings if one.outcome == "abstained"]
    if not found:
        judged = len(silent) < len(analysis.findings)
        blocks += nothing(
            "Nothing was found that holds this step back." if judged else "No finding could judge this step."
        )
    if silent:
        rows = tuple((code(one.finding), one.reason or show.NOTHING) for one in silent)
        blocks.append(Table("Findings that would not judge", columns("Finding", "Why"), rows, folded=True))
    absent = [one.finding for one in analysis.findings if one.outcome not in ("found", "abstained")]
    if absent:
        blocks.append(
            Paragraph(Span(f"Looked for, and not there: {', '.join(map(show.clean, absent))}.", tone="muted"))
        )
    return tuple(blocks)


def _row(one: Finding) -> tuple[Inline, ...]:
    return (
        code(one.finding),
        show.time(one.seconds),
        show.percent(one.share),
        show.ratio_interval(one.gain),
        sentences.basis(one.basis) if one.gain else show.NOTHING,
        observed(one),
        "; ".join(map(show.clean, one.evidence)) or show.NOTHING,
        one.advice or show.NOTHING,
        code(one.suggests) if one.suggests else show.NOTHING,
    )


def observed(one: Finding) -> str:
    """The numbers a finding was decided from, with its threshold."""
    seen = [
        f"{show.clean(name).replace('_', ' ')} {show.quantity(value)}" for name, value in sorted(one.observed.items())
    ]
    if one.threshold is not None:
        seen.append(f"threshold {show.number(one.threshold)}")
    return "; ".join(seen) or show.NOTHING


def render_ledger(run: Run) -> Section:
    """Every prediction beside its outcome, then how well each rule has done."""
    ledger = run.find(Ledger)
    if ledger is None or not ledger.scores:
        return Section("ledger", "Prediction ledger", nothing("No prediction has been scored yet."))
    titles = columns("Phase", "Case", "Finding", "Basis", "#Claimed", "#Predicted", "#Measured", "Outcome", "#Bias")
    rows = tuple(
        (
            phase_link(run, one.prediction.variant),
            code(one.prediction.case),
            code(one.prediction.finding) if one.prediction.finding else show.NOTHING,
            sentences.basis(one.prediction.basis),
            show.ratio_interval(one.prediction.claim),
            sentences.prediction(one.prediction),
            show.ratio_interval(one.measured),
            Span(sentences.scored(one), tone=SCORE_TONES[one.inside]),
            show.number(one.bias),
        )
        for one in ledger.scores
    )
    note = (
        "Claimed: what the step would gain if the finding were cured and nothing else. Predicted: as wide as claims of its rule "
        "have lain off in other workloads. Inside: the measured estimate is. Bias: logarithm of measured over the middle of the "
        "prediction; above zero the phase gained more than predicted."
    )
    figure = draw_predictions(ledger.scores, "predictions")
    beneath = beside(figure, _rules(ledger) if ledger.rules else None)
    return Section(
        "ledger", "Prediction ledger", (Table("Predictions against outcomes", titles, rows, note=note), *beneath)
    )


def _rules(ledger: Ledger) -> Table:
    rows = tuple(
        (
            code(one.finding),
            str(one.outcomes),
            str(one.predictions),
            show.NOTHING if one.inside is None else f"{one.inside} of {one.predictions}",
            show.number(one.median_bias),
            show.number(one.score),
            show.number(one.guess_score),
        )
        for one in ledger.rules
    )
    titles = columns(
        "Rule", "#Measured", "#Predicted of these", "#Inside", "#Median bias", "#Score", "#Score of a constant guess"
    )
    note = (
        f"Score: Winkler's, of {show.percent(ledger.level)} intervals of the logarithm of the speed-up, the mean; less is "
        f"better. The constant guess is always {show.ratio_range(ledger.guess)}. Rates of fewer than {ledger.least_outcomes} "
        "predictions are not told."
    )
    return Table("How well each rule has predicted", titles, rows, note=note)
