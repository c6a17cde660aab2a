"""Success criteria with their evidence, and the risk register with what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.records.analyse import Analysis, RiskResult, TargetResult
from phasewise.records.plan import PlannedRisk, PlannedTarget
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Inline, Paragraph, Section, Span, Table, code, columns
from phasewise.report.sections.common import level_cell, nothing
from phasewise.run import Run

# what a reader has to see first, where one risk was checked in several cases: a check is meant for some of them
GRAVITY = ("came true", "did not come true", "by hand", "not checked")


def render_criteria(run: Run) -> Section:
    """Every target with its bounds, what was reached, and why nothing was."""
    results = run.analysis.targets if run.analysis else ()
    if results:
        blocks: tuple[Table, ...] = (criteria_table("Targets with their evidence", results),)
    elif run.plan.targets:
        blocks = (_planned(run.plan.targets),)
    else:
        return Section("criteria", "Success criteria", nothing("No targets were declared."))
    return Section("criteria", "Success criteria", blocks)


def criteria_table(caption: str, results: Iterable[TargetResult]) -> Table:
    """Targets with evidence; a target is met only if the bound of the interval reaches it."""
    titles = columns("Criterion", "Outcome", "Evidence", "Case", "Against", "#Minimum", "#Target", "#Stretch")
    rows = tuple(
        (
            one.name,
            level_cell(one.level) if one.level.value != "none" else Span("no value", tone="warn"),
            sentences.target(one),
            *_stated(one),
        )
        for one in results
    )
    return Table(
        caption,
        titles,
        rows,
        note="A level counts as reached only if the interval's bound reaches it, and a gain only if it is a claim; it is "
        "missed only if the whole interval falls short, and undecided where the bound lies within it.",
    )


def _planned(targets: tuple[PlannedTarget, ...]) -> Table:
    titles = columns("Criterion", "Case", "Against", "#Minimum", "#Target", "#Stretch")
    return Table("Success criteria, not judged yet", titles, tuple((one.name, *_stated(one)) for one in targets))


def _stated(one: TargetResult | PlannedTarget) -> tuple[Inline, ...]:
    bounds = (show.metric(bound, one.metric, one.unit) for bound in (one.minimum, one.target, one.stretch))
    return code(one.case), one.against, *bounds


def render_open_risks(run: Run) -> Section:
    """Risks that came true or that nothing settled; the others are counted."""
    planned: list[tuple[str, str | None]] = [(risk.title, None) for risk in run.plan.risks]
    planned += [(risk.title, phase.variant) for phase in run.plan.phases for risk in phase.risks]
    told = [(title, variant, find_result(run.analysis, title, variant)) for title, variant in planned]
    still = [one for one in told if one[2] is None or one[2].outcome != "did not come true"]
    still.sort(key=lambda one: one[2] is None or one[2].outcome != "came true")
    rest = Paragraph(
        (f"{len(told) - len(still)} others did not come true: ", Span("all risks", href="method#risks"), ".")
    )
    if not still:
        return Section("open-risks", "Risks", (rest,) if told else nothing("No risks were declared."))
    rows = tuple(
        (
            title,
            outcome_of(result),
            code(variant) if variant else "the run",
            _shortened(result.evidence if result else ""),
        )
        for title, variant, result in still
    )
    table = Table("Risks that came true or stay open", columns("Risk", "Outcome", "Phase", "Evidence"), rows)
    return Section("open-risks", "Risks", (table, rest))


def _shortened(evidence: str) -> str:
    """The first of many findings of a check; the whole of it stands with all risks."""
    first, _, more = evidence.partition("; ")
    return (f"{first}; …" if more else first) or show.NOTHING


def render_risks(run: Run) -> Section:
    """The risk register, each line with its outcome."""
    planned: list[tuple[PlannedRisk, str | None]] = [(risk, None) for risk in run.plan.risks]
    planned += [(risk, phase.variant) for phase in run.plan.phases for risk in phase.risks]
    told = {(risk.title, variant) for risk, variant in planned}
    rows = [_risk_row(risk, variant, find_result(run.analysis, risk.title, variant)) for risk, variant in planned]
    loose = [risk for risk in (run.analysis.risks if run.analysis else ()) if (risk.title, None) not in told]
    in_phases = {title for title, variant in told if variant is not None}
    rows += [
        (one.title, show.NOTHING, show.NOTHING, show.NOTHING, show.NOTHING, show.NOTHING, outcome_of(one), one.evidence)
        for one in loose
        if one.title not in in_phases
    ]
    if not rows:
        return Section("risks", "Risk checklist", nothing("No risks were declared."))
    titles = columns(
        "Risk", "Phase", "Probability, impact", "Mitigation", "Contingency", "Check", "Outcome", "Evidence"
    )
    return Section("risks", "Risk checklist", (Table("Risks with what became of them", titles, tuple(rows)),))


def risks_of_phase(run: Run, variant: str, risks: tuple[PlannedRisk, ...]) -> Table:
    """The part of the register that belongs to one phase."""
    titles = columns("Risk", "Probability, impact", "Mitigation", "Contingency", "Check", "Outcome", "Evidence")
    rows = []
    for risk in risks:
        full = _risk_row(risk, variant, find_result(run.analysis, risk.title, variant))
        rows.append((full[0], *full[2:]))
    return Table("Risks of this phase", titles, tuple(rows))


def find_result(analysis: Analysis | None, title: str, variant: str | None) -> RiskResult | None:
    """What became of a risk in the cases where it was checked, the gravest first; of the run where it belongs to no phase."""
    if variant is None:
        results = list(analysis.risks) if analysis else []
    else:
        results = [
            risk
            for case in (analysis.cases if analysis else ())
            for row in case.rows
            if row.variant == variant
            for risk in row.risks
        ]
    mine = [risk for risk in results if risk.title == title]
    return min(mine, key=lambda risk: GRAVITY.index(risk.outcome) if risk.outcome in GRAVITY else -1, default=None)


def outcome_of(result: RiskResult | None) -> Inline:
    """What became of a risk, in its tone."""
    if result is None:
        return Span("not checked", tone="warn")
    return Span(result.outcome, tone=sentences.RISK_TONES.get(result.outcome, "warn"))


def _risk_row(risk: PlannedRisk, variant: str | None, result: RiskResult | None) -> tuple[Inline, ...]:
    by_hand = f"by hand: {show.clean(risk.by_hand)}" if risk.by_hand else show.NOTHING
    return (
        (Span(risk.title, strong=True), f" – {show.clean(risk.symptom)}")
        if risk.symptom
        else Span(risk.title, strong=True),
        code(variant) if variant else "the run",
        f"{show.clean(risk.probability)}, {show.clean(risk.impact)}",
        risk.mitigation or show.NOTHING,
        risk.contingency or show.NOTHING,
        code(risk.check) if risk.check else f"target {show.clean(risk.target)}" if risk.target else by_hand,
        outcome_of(result),
        (result.evidence if result else "") or show.NOTHING,
    )
