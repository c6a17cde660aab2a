"""What a run comes to, and what its author has to know first."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult
from phasewise.records.verdict import Level
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Alarms, Block, Lead, Paragraph, Section, Span, Table, code, columns
from phasewise.report.load import RunRecords, row_of
from phasewise.report.sections.common import level_cell, nothing, phase_link


def tell_headline(records: RunRecords) -> Section:
    """The speed-up of the headline case's stack over its baseline, then the other cases."""
    blocks: list[Block] = []
    if not records.cases:
        blocks += nothing("Nothing has been analysed yet: run the graph, or its analyse stage.")
    else:
        blocks.append(_lead(records.cases[0]))
    if records.standing is not None and records.standing.changed:
        blocks.append(Paragraph((sentences.freshness(records.standing),)))
    if len(records.cases) > 1:
        blocks.append(_cases(records))
    if records.cases and any(case.parts for case in records.cases):
        blocks.append(_parts(records))
    return Section("headline", "Headline", tuple(blocks))


def _lead(case: CaseResult) -> Lead:
    row = row_of(case, case.stack)
    speedup = case.stack_speedup
    value = show.ratio(speedup.estimate) if speedup else show.NOTHING
    chained = " The ratio is chained from ratios of neighbours." if row is not None and row.verdict.chained else ""
    claim = sentences.no_claim(case)
    text = (
        f"{sentences.headline(row, speedup, case.item)}: case ",
        code(case.case),
        ", variant ",
        code(case.stack) if case.stack else "none",
        f".{chained}",
        f" {claim}" if claim else "",
    )
    return Lead(value, text, sentences.headline_tone(case))


def _cases(records: RunRecords) -> Table:
    rows = []
    for case in records.cases:
        row = row_of(case, case.stack)
        rows.append(
            (
                code(case.case),
                phase_link(records, case.stack),
                show.ratio_interval(case.stack_speedup) + sentences.mark(case.stack_status),
                show.time_interval(row.time_s if row else None),
                show.rate(row.items_per_s if row else None, f"{case.item}/s"),
                show.percent(row.floor_fraction if row else None),
                level_cell(case.stack_level),
            )
        )
    titles = columns("Case", "Stack", "#Over the baseline", "#Step time", "#Rate", "#Of the floor", "Target")
    return Table("All cases at the end of their stacks", titles, tuple(rows))


def _parts(records: RunRecords) -> Table:
    rows = tuple(
        (
            part.part,
            code(case.case),
            phase_link(records, part.variant),
            show.ratio_interval(part.speedup) + sentences.mark(part.status),
            level_cell(part.level),
        )
        for case in records.cases
        for part in case.parts
        if part.variant is not None or part.level is not Level.NONE
    )
    titles = columns("Part", "Case", "Ends in", "#Over the baseline", "Target")
    return Table("Parts of the plan", titles, rows)


def tell_alarms(records: RunRecords) -> Section:
    """The first finding: kept phases that lost, gates that did not hold, holes in the records."""
    alarms = tuple(records.analysis.alarms) if records.analysis else ()
    holes = records.holes
    blocks: list[Block] = []
    if alarms:
        blocks.append(Alarms(alarms))
    elif records.analysis is not None:
        blocks.append(Paragraph(Span("No alarms: every kept phase holds and every gate did its work.", tone="good")))
    if holes:
        count = f"{len(holes)} {'record is' if len(holes) == 1 else 'records are'} missing or can't be read"
        blocks.append(
            Paragraph(
                Span(f"{count}; what depends on {'it' if len(holes) == 1 else 'them'} is shown as a hole.", tone="warn")
            )
        )
        rows = tuple((hole,) for hole in holes)
        blocks.append(Table("Holes in the records", columns("Record"), rows, folded=len(holes) > 3, row_titles=False))
    return Section("alarms", "Alarms", tuple(blocks))
