"""The result table of the README, a row for each full-size run; a test checks that it is fresh."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from phasewise.model.freshness import judge_run
from phasewise.model.stack import BASELINE
from phasewise.records.analyse import Analysis, CaseResult, PromiseResult, Row
from phasewise.records.base import Interval
from phasewise.records.errors import UserError
from phasewise.records.machine import Machine
from phasewise.records.plan import RunPlan
from phasewise.records.promise import Kept
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.markdown import escape
from phasewise.report.rows import row_of
from phasewise.report.sections.questions import best_peer, earlier_gain, tell_ours
from phasewise.store import read, read_if_there, write_bytes

# marks a row whose records are of other files than today's
STALE = "†"
# a time whose interval spans this is no time to be told
WIDEST = 2.0
BEGIN, END = "<!-- results -->", "<!-- /results -->"
TITLES = (
    "Workload, headline case", "Device", "Now", "Over the strongest alternative", "Of the best possible", "Over the user's own code",
    "Promises of the user's document", "Report",
)  # fmt: skip


def make_table(root: Path) -> str:
    """A row for the headline case of each profiles/records/*/full-* that was analysed, as a Markdown table.

    Raises:
        RecordError: a record of one is damaged.
    """
    rows = []
    for path in sorted((root / "profiles" / "records").glob("*/full-*/analyse.json")):
        analysis, run = read(path, Analysis), read(path.with_name("plan.json"), RunPlan)
        machine = read_if_there(root / "profiles" / "machines" / f"{run.device}.json", Machine)
        rows += [_row(analysis, run, machine, root)] if analysis.cases else []
    if not rows:
        return "No full-size run is on record yet."
    lines = [f"| {' | '.join(TITLES)} |", "|---|---|---:|---|---:|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    if any(STALE in row[-1] for row in rows):
        lines += [
            "",
            f"{STALE} measured by other code than today's, or it is not on record by which; `phasewise status` tells more.",
        ]
    return "\n".join(lines)


def _row(analysis: Analysis, run: RunPlan, machine: Machine | None, root: Path) -> tuple[str, ...]:
    case = analysis.cases[0]
    row = row_of(case, case.stack)
    fresh = judge_run(run, root).fresh
    link = f"[{escape(run.run)}](reports/{run.workload}/{run.run}/index.md)"
    return (
        f"{escape(run.workload)}, {escape(case.case)}",
        escape(machine.name if machine is not None and machine.name else run.device),
        show.time_interval(_steady(row)),
        _render_peer(case),
        show.percent(row.floor_fraction if row is not None else None),
        _render_gain(case, row),
        _count(analysis.promises),
        link if {BASELINE, case.stack or BASELINE} <= fresh else f"{link} {STALE}",
    )


def _steady(row: Row | None) -> Interval | None:
    time = row.time_s if row is not None else None
    return time if time is not None and time.high < WIDEST * time.low else None


def _render_peer(case: CaseResult) -> str:
    peer = best_peer(case)
    if peer is None:
        return "not measured"
    return f"{show.ratio_interval(peer.ratio)} {escape(peer.name)}{escape(tell_ours(peer, case))}"


def _render_gain(case: CaseResult, row: Row | None) -> str:
    """The ratio with both of its times."""
    if (earlier := earlier_gain(case)) is not None:
        return f"{show.ratio_interval(earlier.verdict.over_baseline)}; held against {escape(earlier.variant)}"
    if case.stack_speedup is None and not case.stack_at_least:
        return show.NOTHING
    told = claims.speedup(case.stack_speedup, case.stack_at_least)
    told += claims.mark(case.stack_status, chained=case.stack_chained)
    before, after = _steady(row_of(case, BASELINE)), _steady(row)
    if before is None or after is None:
        return f"{told}, a time too unsteady to be told"
    return f"{told}, {show.time(before.estimate)} → {show.time(after.estimate)}"


def _count(promises: tuple[PromiseResult, ...]) -> str:
    """How many promises became what; those that are none are left out."""
    counts = Counter(one.outcome for one in promises)
    told = [
        f"{counts[outcome]} {outcome.value}" for outcome in Kept if outcome is not Kept.NO_PROMISE and counts[outcome]
    ]
    return ", ".join(told) or show.NOTHING


def renew_text(text: str, table: str, place: str) -> str:
    """`text` with the table between its two markers.

    Raises:
        UserError: a marker is missing, or they are out of order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(
            f"{place}: the markers {BEGIN} and {END} are not there in this order; put them where the table belongs"
        )
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def renew_table(root: Path, readme: Path) -> None:
    """Renew the table in `readme`; the file is written only if it changes."""
    if not readme.is_file():
        raise UserError(f"{readme}: no such file; name the README that holds the markers {BEGIN} and {END}")
    text = readme.read_text(encoding="utf-8")
    renewed = renew_text(text, make_table(root), str(readme))
    if renewed != text:
        write_bytes(renewed.encode(), readme)
