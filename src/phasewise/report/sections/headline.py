"""What a run comes to, and what its author has to know first."""

from __future__ import annotations

from phasewise.model.freshness import Standing, judge_run
from phasewise.model.workload import DEFAULT_TIERS
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.blocks import Alarms, Block, Paragraph, Section, Span, Table, code, columns
from phasewise.report.holes import list_holes
from phasewise.report.rows import row_of
from phasewise.report.sections.common import level_cell, nothing, phase_link
from phasewise.report.sections.gate import allowance_words
from phasewise.run import Run

# of the files that have changed
MOST_FILES = 6


def render_cases(run: Run) -> Section:
    """All cases at the end of their stacks, and of which files they are."""
    blocks: list[Block] = []
    if run.results:
        blocks.append(_cases(run))
        if wider := wide_tolerance(run, run.results[0].stack):
            blocks.append(Paragraph(wider))
    standing = judge_run(run.plan, run.layout.root) if run.layout is not None and run.rows else None
    if standing is not None and standing.changed:
        blocks.append(Paragraph((_freshness(standing),)))
    return Section("cases", "Cases", tuple(blocks) or nothing("Nothing has been analysed yet."))


def wide_tolerance(run: Run, variant: str | None) -> str:
    """A sentence if errors are allowed that the usual tier of that name does not allow; else ""."""
    plan = run[variant].plan if variant is not None else None
    usual = DEFAULT_TIERS.get(plan.tier) if plan is not None else None
    if plan is None or usual is None:
        return ""
    allowed = plan.allowance
    if allowed.rtol <= usual.rtol and allowed.atol <= usual.atol:
        return ""
    return f"Its tolerance is wider than the usual tier {plan.tier}: {allowance_words(allowed)}"


def _cases(run: Run) -> Table:
    rows = []
    for case in run.results:
        row = row_of(case, case.stack)
        rows.append(
            (
                code(case.case),
                phase_link(run, case.stack),
                claims.speedup(case.stack_speedup, case.stack_at_least)
                + claims.mark(case.stack_status, chained=case.stack_chained),
                show.time_interval(row.time_s if row else None),
                show.rate(row.items_per_s if row else None, f"{case.item}/s"),
                show.percent(row.floor_fraction if row else None),
                level_cell(case.stack_level),
            )
        )
    titles = columns("Case", "Stack", "#Over the baseline", "#Step time", "#Rate", "#Of the best possible", "Target")
    return Table("All cases at the end of their stacks", titles, tuple(rows))


def render_alarms(run: Run) -> Section:
    """The first finding: kept phases that lost, gates that did not hold, holes in the records."""
    alarms = tuple(run.analysis.alarms) if run.analysis else ()
    holes = list_holes(run)
    blocks: list[Block] = []
    if alarms:
        blocks.append(Alarms(alarms))
    elif run.analysis is not None:
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


def _freshness(standing: Standing) -> str:
    """Whether the records are of today's files, in a sentence."""
    count, fresh = len(standing.changed), len(standing.fresh)
    commits = ", ".join(show.clean(commit) for commit in standing.commits)
    if fresh == count:
        return f"Fresh: what the processes of all {count} variants loaded is unchanged since (commit {commits})."
    known = sum(files is not None for files in standing.changed.values())
    if not known:
        return f"Stale: made at commit {commits}, before records listed the files that they depend on."
    names = [show.clean(name) for name in standing.files]
    shown = ", ".join(names[:MOST_FILES]) + (f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else "")
    why = f"changed since: {shown}" if shown else "which files they depend on is not on record"
    return f"Stale: {count - fresh} of {count} variants, made at commit {commits}; {why}."
