"""The numbers of all runs in two small files: what `dvc metrics` and `dvc plots` show and compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from phasewise.model.layout import Layout
from phasewise.report.summary import Case, read_summary
from phasewise.report.trials import leave_out_trials
from phasewise.store import write_bytes

# of the end of a stack: what two commits are compared by
METRICS = ("time_s", "items_per_s", "floor_fraction", "peak_memory_bytes", "energy_j_per_item")


def write_numbers(root: Path) -> None:
    """Write reports/metrics.json (workload -> run -> case -> numbers) and reports/phases.json (a row for each timed phase).

    Raises:
        RecordError: a summary is damaged.
    """
    metrics: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    found = {(path.parts[-3], path.parts[-2]) for path in (root / "reports").glob("*/*/summary.json")}
    for name in leave_out_trials(found):
        summary = read_summary(Layout(root).report(*name) / "summary.json")
        workload, run = summary.workload, summary.run
        metrics.setdefault(workload, {})[run] = {case.case: _list_numbers(case) for case in summary.cases}
        rows += [row for case in summary.cases for row in _list_rows(f"{workload} {run} {case.case}", case)]
    _write(metrics, root / "reports" / "metrics.json")
    _write(rows, root / "reports" / "phases.json")


def _list_numbers(case: Case) -> dict[str, float]:
    """Of the last kept variant; what was not measured is left out, since DVC compares numbers only."""
    row = next((one for one in case.phases if one.variant == case.stack.variant), case.baseline)
    speedup = case.stack.speedup
    bounds = {"speedup": "estimate", "speedup_low": "low", "speedup_high": "high"}
    found = {
        **{name: getattr(speedup, bound, None) for name, bound in bounds.items()},
        **{name: getattr(row, name, None) for name in METRICS},
    }
    return {name: value for name, value in found.items() if value is not None}


def _list_rows(place: str, case: Case) -> list[dict[str, Any]]:
    return [
        {
            "phase": f"{place}: {row.variant}",
            "speedup": row.speedup_baseline.estimate,
            "low": row.speedup_baseline.low,
            "high": row.speedup_baseline.high,
            "time_s": row.time_s,
        }
        for row in case.phases
        if row.speedup_baseline is not None
    ]


def _write(plain: Any, path: Path) -> None:
    content = (json.dumps(plain, indent=1, sort_keys=True) + "\n").encode()
    if not path.is_file() or path.read_bytes() != content:
        write_bytes(content, path)
