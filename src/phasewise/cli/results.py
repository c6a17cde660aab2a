"""What a run came to, where people look: a table of its phases, its alarms, the path of its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phasewise.model.layout import Layout
from phasewise.records.analyse import CaseResult, Row
from phasewise.records.base import Interval
from phasewise.records.plan import Kind
from phasewise.records.verdict import Reason, Status, Verdict
from phasewise.run import Run

# verdicts that say little without their reason
DOUBTFUL = (Status.INCONCLUSIVE, Status.INVALID, Status.FAILED, Status.SKIPPED)
TITLES = ("phase", "verdict", "speed-up", "over the baseline", "error")


def describe_results(run: Run, layout: Layout) -> str:
    """One table a case, then the alarms and the page; "" where nothing has been judged."""
    if run.analysis is None:
        return ""
    lines: list[str] = []
    for case in run.results:
        lines += [f"{run.workload} {run.name}, {case.case}", *_set_table([TITLES, *_tell_rows(case)]), ""]
    lines += explain_doubts(row.verdict for case in run.results for row in case.rows)
    lines += [f"alarm: {alarm}" for alarm in run.analysis.alarms]
    page = layout.report(run.workload, run.name) / "index.html"
    lines += [f"page: {layout.relative(page)}"] if page.is_file() else []
    return "\n".join(lines)


def explain_doubts(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each reason why nothing is claimed, where a table has only its code."""
    from phasewise.report.sentences import REASONS

    reasons = {verdict.reason for verdict in verdicts if verdict.status is Status.INCONCLUSIVE}
    return [f"{reason}: {REASONS[reason]}" for reason in sorted(reasons)]


def _tell_rows(case: CaseResult) -> Iterable[tuple[str, ...]]:
    for row in case.rows:
        if row.kind in (Kind.BASELINE, Kind.PHASE) and row.verdict.reason is not Reason.CASE_NOT_CHOSEN:
            verdict = row.verdict
            reason = f" ({verdict.reason})" if verdict.status in DOUBTFUL else ""
            yield (
                row.variant, f"{verdict.status}{reason}", _tell(verdict.over_parent), _tell(verdict.over_baseline),
                _tell_error(row),
            )  # fmt: skip


def _tell(ratio: Interval | None) -> str:
    return "-" if ratio is None else f"{ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}]"


def _tell_error(row: Row) -> str:
    return "-" if row.max_error is None else f"{row.max_error:.2g}"


def _set_table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[index]) for row in rows) for index in range(len(TITLES))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
