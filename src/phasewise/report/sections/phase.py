"""One phase on the page of its part: what changed, why, what it was to gain, what it gained, and at what risk."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, Row
from phasewise.records.base import Scalar
from phasewise.records.plan import PlannedPhase
from phasewise.records.validate import CaseValidation
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import (
    Block,
    Bullets,
    Code,
    Definitions,
    Inline,
    Paragraph,
    Section,
    Span,
    Table,
    beside,
    code,
    columns,
)
from phasewise.report.figures.theme import slug
from phasewise.report.rows import row_of
from phasewise.report.sections.common import level_cell, nothing, outcome_cell, rows_of, status_cell
from phasewise.report.sections.gate import check_figure, check_line, error_table, failed_guards, guard_table
from phasewise.report.sections.goals import criteria_table, risks_of_phase
from phasewise.report.sections.kernels import compare
from phasewise.run import Run


def render_phase(run: Run, phase: PlannedPhase) -> Section:
    """Everything on record about one phase."""
    rows = rows_of(run, phase)
    targets = [one for one in (run.analysis.targets if run.analysis else ()) if one.phase == phase.phase]
    blocks: list[Block] = [
        *_verdicts(phase, rows),
        *_change(run, phase, rows),
        Definitions(_plan(run, phase, rows)),
        *_outcome(rows),
    ]
    if targets:
        blocks.append(criteria_table("Targets of this phase", targets))
    for case, row in rows:
        blocks += _gate(run, case, row)
    for case, row in rows:
        blocks += _profiles(run, case, row)
    if phase.risks:
        blocks.append(risks_of_phase(run, phase.variant, phase.risks))
    return Section(slug(phase.variant), show.clean(phase.variant), tuple(blocks))


def _verdicts(phase: PlannedPhase, rows: tuple[tuple[CaseResult, Row], ...]) -> tuple[Block, ...]:
    if not rows:
        return nothing("No outcome of this phase is on record yet.")
    items: list[Inline] = []
    for case, row in rows:
        where: tuple[str | Span, ...] = (" in ", code(case.case)) if len(rows) > 1 else ()
        items.append((status_cell(row.verdict), *where, ": ", sentences.sentence(row.verdict, row.parent)))
    told: Block = Bullets(tuple(items)) if len(items) > 1 else Paragraph(items[0])
    if phase.must:
        return (told, Paragraph(f"Put here to be refused: the gate must say {show.clean(phase.must)}."))
    if not phase.kept:
        return (told, Paragraph("Measured beside its parent and not built upon."))
    return (told,)


def _change(run: Run, phase: PlannedPhase, rows: tuple[tuple[CaseResult, Row], ...]) -> tuple[Block, ...]:
    """The switches that differ from the parent's, before and after."""
    planned = run.rows.get(phase.variant)
    parent = (planned.parent if planned else None) or (rows[0][1].parent if rows else None)
    sets = (planned.sets if planned else {}) or (rows[0][1].sets if rows else {})
    before = _switches(run, rows, parent)
    if not sets:
        return ()
    lines = []
    for name, value in sorted(sets.items()):
        if name in before:
            lines.append(f"- {show.clean(name)} = {show.scalar(before[name])}")
        lines.append(f"+ {show.clean(name)} = {show.scalar(value)}")
    return (Paragraph(("What was changed", *((" over ", code(parent)) if parent else ()), ":")), Code("\n".join(lines)))


def _switches(run: Run, rows: tuple[tuple[CaseResult, Row], ...], parent: str | None) -> dict[str, Scalar]:
    if parent in run.rows:
        return run.plan.switches_of(parent)
    row = row_of(rows[0][0], parent) if rows else None
    return row.switches if row else {}


def _plan(run: Run, phase: PlannedPhase, rows: tuple[tuple[CaseResult, Row], ...]) -> tuple[tuple[Inline, Inline], ...]:
    pairs: list[tuple[Inline, Inline]] = [("Because", _because(run, phase, rows))]
    if phase.method:
        pairs.append(("Method", phase.method))
    pairs.append(("Documented", show.ratio_range(phase.documented)))
    pairs.append(("Expected by its author", show.ratio_range(phase.expect)))
    for case, row in rows:
        if row.predicted is not None:
            where = f" in {show.clean(case.case)}" if len(rows) > 1 else ""
            pairs.append((f"Predicted{where}", sentences.predicted(row.predicted)))
    return tuple(pairs)


def _because(run: Run, phase: PlannedPhase, rows: tuple[tuple[CaseResult, Row], ...]) -> Inline:
    """The reason, and whether the parent's profile bears it out."""
    if not phase.because:
        return show.NOTHING
    if phase.because_is_idea:
        return (phase.because, Span(" (the author's idea, not from a trace)", tone="muted"))
    planned = run.rows.get(phase.variant)
    parent = (planned.parent if planned else None) or (rows[0][1].parent if rows else None)
    analysis = run[parent or ""].analysis
    found = [
        one for case in (analysis.cases if analysis else ()) for one in case.findings if one.finding == phase.because
    ]
    if not found:
        return (code(phase.because), Span(": the parent's analysis does not speak of it", tone="warn"))
    best = max(found, key=lambda one: (one.outcome == "found", one.seconds))
    if best.outcome == "found":
        return (code(phase.because), f": in the profile of {show.clean(parent or '')}. {sentences.finding(best)}")
    return (code(phase.because), Span(f": the parent's profile lacks it. {sentences.finding(best)}", tone="warn"))


def _outcome(rows: tuple[tuple[CaseResult, Row], ...]) -> tuple[Block, ...]:
    timed = [(case, row) for case, row in rows if row.time_s is not None or row.verdict.over_parent is not None]
    if not timed:
        return ()
    titles = columns(
        "Case", "Verdict", "#Over the parent", "#Over the baseline", "#Step time", "#Over sets", "#p50", "#p99", "#GPU busy", "#Of the best possible",
        "#Memory", "#First step", "#Pays after", "#Rounds", "Target",
    )  # fmt: skip
    told = tuple(
        (
            code(case.case),
            status_cell(row.verdict),
            show.ratio_interval(row.verdict.over_parent),
            show.ratio_interval(row.verdict.over_baseline) + (" ‡" if row.verdict.chained else ""),
            show.time_interval(row.time_s),
            show.time_range(row.range_s),
            show.time(row.p50_s),
            show.time(row.p99_s),
            _busy(row),
            show.percent(row.floor_fraction),
            show.size(row.peak_memory_bytes),
            show.time(row.first_step_s),
            f"{show.number(row.pays_after_steps)} steps" if row.pays_after_steps is not None else show.NOTHING,
            f"{row.rounds} in {show.counted(row.sets_of_processes, 'set')}{f', {row.dropped_rounds} dropped' if row.dropped_rounds else ''}",
            level_cell(row.level),
        )
        for case, row in timed
    )
    note = (
        "Over sets: least and largest median of a set of processes. GPU busy: by the trace of a block that is no part of any "
        "ratio; a step is host-bound where the GPU waits for more than half of it."
    )
    return (Table("Measured", titles, told, note=note),)


def _busy(row: Row) -> Inline:
    """What the GPU has to do in a step, and whether the host is what bounds it."""
    return (show.time(row.busy_s), Span(" host-bound", tone="warn")) if row.host_bound else show.time(row.busy_s)


def _gate(run: Run, case: CaseResult, row: Row) -> tuple[Block, ...]:
    gate = run[row.variant].gate(case.case)
    if gate is None:
        return (Paragraph((f"Validation in {show.clean(case.case)}: ", Span("no record", tone="warn"), ".")),)
    message = f" {show.clean(gate.message)}" if gate.message else ""
    blocks: list[Block] = [
        Paragraph((f"Validation in {show.clean(case.case)}: ", outcome_cell(gate.outcome), f".{message}"))
    ]
    failed = failed_guards(gate)
    if failed is not None:
        blocks.append(Paragraph(failed))
    if gate.fallbacks:
        blocks.append(Bullets(tuple(f"Fell back: {show.clean(reason)}" for reason in gate.fallbacks)))
    if gate.errors:
        blocks.append(error_table(f"Errors against the {gate.against} in {case.case}", gate.errors))
    if gate.guards:
        blocks.append(guard_table(f"Guards in {case.case}", gate.guards))
    blocks += _checks(gate, case, row)
    return tuple(blocks)


def _checks(gate: CaseValidation, case: CaseResult, row: Row) -> tuple[Block, ...]:
    if not gate.checks:
        return ()
    rows = tuple((code(check.check), *check_line(check)) for check in gate.checks)
    table = Table(f"Checks in {case.case}", columns("Check", "Outcome", "Numbers", "Message"), rows)
    return beside(table, *(check_figure(check, case.case, row.variant) for check in gate.checks))


def _profiles(run: Run, case: CaseResult, row: Row) -> tuple[Block, ...]:
    """The step of the parent beside the step of this variant."""
    found = [
        (variant, run[variant].profiled(case.case)) for variant in (row.parent, row.variant) if variant is not None
    ]
    shown = [(variant, profile) for variant, profile in found if profile is not None]
    if row.variant not in {variant for variant, profile in shown if profile.breakdown is not None}:
        return ()
    return compare(shown, case.case, f"before-after-{slug(row.variant)}-{slug(case.case)[:20]}")
