"""Roadmap and the table of all variants."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, RiskResult, Row
from phasewise.records.plan import Kind, PlannedPhase
from phasewise.records.verdict import Reason
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Inline, Paragraph, Section, Span, Table, beside, code, columns
from phasewise.report.figures.phases import draw_roadmap
from phasewise.report.figures.theme import slug
from phasewise.report.rows import row_of
from phasewise.report.sections.common import (
    by_case,
    level_cell,
    method,
    nothing,
    phase_link,
    phases_in_order,
    status_cell,
    switches_text,
)
from phasewise.run import Run


def render_roadmap(run: Run) -> Section:
    """What was planned against what came."""

    def draw(case: CaseResult) -> tuple[Block, ...]:
        here = tuple(phase for phase in run.plan.phases if not phase.cases or case.case in phase.cases)
        figure = draw_roadmap(case, here, f"roadmap-{slug(case.case)}")
        return beside(figure, _expectations(case, here)) if figure is not None else ()

    blocks = by_case(run.results, "roadmap", draw)
    if not run.results:
        table = _plan_table(run) if run.plan.phases else None
        blocks = beside(draw_roadmap(None, run.plan.phases, "roadmap"), table)
    return Section("roadmap", "Roadmap", blocks or nothing("No phase has a gain to show yet."))


def _expectations(case: CaseResult, phases: tuple[PlannedPhase, ...]) -> Table:
    """The chart in numbers."""
    rows = []
    for phase in phases:
        row = row_of(case, phase.variant)
        if row is not None and row.verdict.reason is not Reason.CASE_NOT_CHOSEN:
            rows.append(
                (
                    code(phase.variant),
                    show.ratio_interval(row.verdict.over_parent),
                    sentences.prediction(row.predicted),
                    show.ratio_range(phase.expect),
                    show.ratio_range(row.documented or phase.documented),
                )
            )
    titles = columns("Phase", "#Measured", "#Predicted", "#Expected", "#Documented")
    return Table(f"Gains over the parent in {case.case}", titles, tuple(rows))


def _plan_table(run: Run) -> Table:
    rows = tuple(
        (
            phase_link(run, phase.variant),
            phase.part or show.NOTHING,
            show.ratio_range(phase.documented),
            show.ratio_range(phase.expect),
        )
        for phase in run.plan.phases
    )
    return Table("Planned phases, not analysed yet", columns("Phase", "Part", "#Documented", "#Expected"), rows)


def render_summary(run: Run) -> Section:
    """Every variant with its verdict."""
    return Section(
        "summary",
        "Summary",
        by_case(run.results, "summary", lambda case: _tables(run, case))
        or nothing("No variant has been analysed yet."),
    )


def _tables(run: Run, case: CaseResult) -> tuple[Block, ...]:
    rows = phases_in_order(case)
    apart = [row.phase for row in rows if row.phase and row.verdict.reason is Reason.CASE_NOT_CHOSEN]
    note = "Error: largest relative error against the float64 reference. A dash means: not recorded."
    blocks: list[Block] = [
        Table(
            f"Phases of {case.case}: gains are speed-ups over the parent with 95 % intervals",
            columns(
                "Phase", "Verdict", "#Measured", "#Interval", "#Predicted", "#Documented", "#Over the baseline", "#Step time", "#Error",
                "#Energy an item", "#Memory", "Risk", "Method",
            ),
            tuple(_row(run, case, row) for row in rows if row.phase not in apart),
            note=f"{note} Phases that are not for this case: {', '.join(apart)}." if apart else note,
        )
    ]  # fmt: skip
    if case.smaller:
        blocks.append(_smaller(case))
    ablations = tuple(row for row in case.rows if row.kind in (Kind.WITHOUT, Kind.ONLY))
    if ablations:
        blocks.append(
            Table(
                f"Ablations of {case.case}: the stack without one phase, the baseline with only one",
                columns("Variant", "Compared with", "#Measured", "#Interval", "#Step time", "Verdict", "Why"),
                tuple(_ablation(row) for row in ablations),
            )
        )
    if any(row.verdict.chained for row in case.rows):
        blocks.append(
            Paragraph(
                Span("‡ chained: a product of ratios between neighbours, with the interval propagated.", tone="muted")
            )
        )
    return tuple(blocks)


def _smaller(case: CaseResult) -> Table:
    # what is the same in all shapes tells nothing
    shapes = [point.shape for point in case.smaller]
    varied = [name for name in shapes[0] if len({shape.get(name) for shape in shapes}) > 1] or list(shapes[0])
    is_counted = all(point.operators for point in case.smaller)
    is_compared = any(point.speedup is not None for point in case.smaller)
    rows = tuple(
        (
            ", ".join(f"{name} {show.scalar(point.shape[name])}" for name in varied),
            show.number(point.items),
            *((show.number(point.operators), show.number(point.elements)) if is_counted else ()),
            str(point.blocks),
            # a single block tells nothing of the noise
            show.time_interval(point.step_s) if point.blocks > 1 else show.time(point.step_s.estimate),
            *((show.ratio_interval(point.speedup),) if is_compared else ()),
        )
        for point in case.smaller
    )
    counts = ("#Operators", "#Elements they read and write") if is_counted else ()
    titles = columns(
        "Shape",
        f"#{case.item.capitalize()}",
        *counts,
        "#Blocks",
        "#Step time",
        *(("#The stack over it",) if is_compared else ()),
    )
    note = f"It is too slow for the shape of this case, {show.number(case.items)} {show.clean(case.item)}; nothing is said of it there."
    return Table(f"The baseline of {case.case} at the shapes that it can run", titles, rows, note=note)


def _row(run: Run, case: CaseResult, row: Row) -> tuple[Inline, ...]:
    planned = run.phases.get(row.variant)
    over_parent, over_baseline = row.verdict.over_parent, row.verdict.over_baseline
    mark = " ‡" if row.verdict.chained and over_baseline is not None else ""
    return (
        phase_link(run, row.variant),
        _verdict(row),
        show.ratio(over_parent.estimate if over_parent else None),
        show.only_bounds(over_parent),
        sentences.prediction(row.predicted),
        show.ratio_range(row.documented or (planned.documented if planned else None)),
        show.ratio_interval(over_baseline) + mark,
        show.time_interval(row.time_s),
        show.power_of_ten(row.max_error),
        show.with_unit(row.energy_j_per_item, "J"),
        show.size(row.peak_memory_bytes),
        risk_count(row.risks),
        method(run, row.variant, row.sets),
    )


def _verdict(row: Row) -> Inline:
    parts: list[str | Span] = [status_cell(row.verdict)]
    if row.level.value != "none":
        parts += [" ", level_cell(row.level)]
    if not row.kept and row.kind == Kind.PHASE:
        parts.append(Span(" not kept", tone="muted"))
    return tuple(parts)


def risk_count(risks: tuple[RiskResult, ...]) -> Inline:
    """How many risks came true."""
    if not risks:
        return show.NOTHING
    true = sum(risk.outcome == "came true" for risk in risks)
    unknown = sum(risk.outcome in ("not checked", "by hand") for risk in risks)
    if true:
        return Span(f"{true} of {len(risks)} came true", tone="bad")
    if unknown:
        return Span(f"{unknown} of {len(risks)} not checked", tone="warn")
    return Span(f"0 of {len(risks)} came true", tone="good")


def _ablation(row: Row) -> tuple[Inline, ...]:
    over = row.verdict.over_parent
    return (
        code(row.variant),
        code(row.parent) if row.parent else show.NOTHING,
        show.ratio(over.estimate if over else None),
        show.only_bounds(over),
        show.time_interval(row.time_s),
        status_cell(row.verdict),
        sentences.why(row.verdict) or code(switches_text(row.sets)),
    )
