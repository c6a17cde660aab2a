"""The result table of the README, from the summaries of full-size runs; a test checks that it is fresh."""

from __future__ import annotations

from pathlib import Path

from phasewise.model.freshness import judge_run
from phasewise.model.layout import Layout
from phasewise.model.stack import BASELINE
from phasewise.records.errors import UserError
from phasewise.records.plan import RunPlan
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.markdown import escape
from phasewise.report.summary import Case, read_summary
from phasewise.store import read_if_there, write_bytes

# marks a row whose records are of other files than today's
STALE = "†"
BEGIN, END = "<!-- results -->", "<!-- /results -->"
TITLES = (
    "Workload",
    "Device",
    "Case",
    "Baseline step",
    "Now",
    "Speed-up",
    "Strongest peer",
    "Floor of a claim",
    "Phases kept",
    "Report",
)


def make_table(root: Path) -> str:
    """One row for each case of each reports/<workload>/full-*/summary.json, as a Markdown table."""
    rows = []
    marked = False
    for path in sorted((root / "reports").glob("*/full-*/summary.json")):
        summary = read_summary(path)
        link = f"[{escape(summary.run)}](reports/{path.parent.parent.name}/{path.parent.name}/index.md)"
        device = summary.environment.name or summary.device
        fresh = _list_fresh(root, path.parent.parent.name, path.parent.name)
        for case in summary.cases:
            is_fresh = fresh is None or {BASELINE, case.stack.variant or BASELINE} <= fresh
            marked |= not is_fresh
            told = (escape(summary.workload), escape(device), escape(case.case), *_list_numbers(case))
            rows.append((*told, link if is_fresh else f"{link} {STALE}"))
    if not rows:
        return "No full-size run is on record yet."
    lines = [f"| {' | '.join(TITLES)} |", "|---|---|---|---:|---:|---:|---|---:|---:|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    if marked:
        lines += [
            "",
            f"{STALE} measured by other code than today's, or it is not on record by which; `phasewise status` tells more.",
        ]
    return "\n".join(lines)


def _list_fresh(root: Path, workload: str, run: str) -> frozenset[str] | None:
    """Variants whose records are of today's files; None where the run has none that could be judged."""
    plan = read_if_there(Layout(root).run(workload, run) / "plan.json", RunPlan)
    return None if plan is None else judge_run(plan, root).fresh


def _list_numbers(case: Case) -> tuple[str, ...]:
    """Baseline time, time now, speed-up, time of the strongest peer over ours, floor, and how many of the phases were kept."""
    stack, base = case.stack, case.baseline
    row = next((one for one in case.phases if one.variant == stack.variant), base)
    kept = sum(one.kept for one in case.phases)
    return (
        show.time_interval(base.time if base is not None else None),
        show.time_interval(row.time if row is not None else None),
        claims.speedup(stack.speedup, stack.at_least) + claims.mark(stack.status, chained=stack.chained),
        _render_peer(case),
        show.percent(case.aa.floor if case.aa is not None else None),
        f"{kept} of {len(case.phases)}",
    )


def _render_peer(case: Case) -> str:
    peer = next((one for one in case.peers if one.name == case.stack.strongest_peer), None)
    return show.NOTHING if peer is None else f"{escape(peer.name)}: {show.ratio_interval(peer.ratio)}"


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
