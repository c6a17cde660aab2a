"""The result table of the README, from the summaries of full-size runs; a test checks that it is fresh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from phasewise.model.freshness import judge_run
from phasewise.model.layout import Layout
from phasewise.model.stack import BASELINE
from phasewise.records.base import Interval
from phasewise.records.errors import RecordError, UserError
from phasewise.records.plan import RunPlan
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.markdown import escape
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
        summary = _read(path)
        link = f"[{escape(summary['run'])}](reports/{path.parent.parent.name}/{path.parent.name}/index.md)"
        device = summary.get("environment", {}).get("name") or summary["device"]
        fresh = _list_fresh(root, path.parent.parent.name, path.parent.name)
        for case in summary.get("cases") or [summary]:
            is_fresh = fresh is None or {BASELINE, (case.get("stack") or {}).get("variant") or BASELINE} <= fresh
            marked |= not is_fresh
            told = (escape(summary["workload"]), escape(device), escape(case["case"]), *_numbers(case))
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


def _numbers(case: dict[str, Any]) -> tuple[str, ...]:
    """Baseline time, time now, speed-up, time of the strongest peer over ours, floor, and how many of the phases were kept."""
    stack = case.get("stack") or {}
    phases = case.get("phases") or []
    row = next((one for one in phases if one["variant"] == stack.get("variant")), None) or case.get("baseline") or {}
    aa = case.get("aa") or {}
    kept = sum(bool(one["kept"]) for one in phases)
    return (
        show.time_interval(_time(case.get("baseline"))),
        show.time_interval(_time(row)),
        claims.speedup(_interval(stack.get("speedup")), stack.get("at_least"))
        + claims.mark(stack.get("status"), chained=stack.get("chained", False)),
        _render_peer(case, stack.get("strongest_peer")),
        show.percent(aa.get("floor")),
        f"{kept} of {len(phases)}",
    )


def _render_peer(case: dict[str, Any], name: str | None) -> str:
    peer = next((one for one in case.get("peers") or [] if one["name"] == name), None)
    return show.NOTHING if peer is None else f"{escape(peer['name'])}: {show.ratio_interval(_interval(peer['ratio']))}"


def _interval(plain: dict[str, Any] | None) -> Interval | None:
    if not plain or plain.get("estimate") is None:
        return None
    return Interval(estimate=plain["estimate"], low=plain["low"], high=plain["high"])


def _time(row: dict[str, Any] | None) -> Interval | None:
    if not row or row.get("time_s") is None:
        return None
    return Interval(estimate=row["time_s"], low=row["low_s"], high=row["high_s"])


def _read(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_bytes())
    except ValueError as error:
        raise RecordError(f"{path}: not a whole summary ({error}); run `phasewise report` for it again") from error
    if not isinstance(plain, dict) or plain.get("schema") != 1:
        raise RecordError(
            f"{path}: not a summary of schema 1; run `phasewise analyse` and `phasewise report` for it again"
        )
    return plain


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
