"""The result table of the README."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from make import WORKLOAD, make_records
from make_stages import make_machine

from phasewise.records.base import Interval
from phasewise.records.errors import RecordError, UserError
from phasewise.records.verdict import Status
from phasewise.report import make_table, renew_table
from phasewise.report.markdown import escape
from phasewise.report.readme import BEGIN, END
from phasewise.store import write


def write_run(root: Path, run: str = "full-h200", **changes: object) -> Path:
    """The made-up run, with its headline case changed; returns the path of its analysis."""
    records = make_records()
    assert records.analysis is not None
    first, *others = records.analysis.cases
    cases = (msgspec.structs.replace(first, **changes), *others)
    path = root / "profiles" / "records" / WORKLOAD / run / "analyse.json"
    write(msgspec.structs.replace(records.analysis, run=run, cases=cases), path)
    write(msgspec.structs.replace(records.plan, run=run), path.with_name("plan.json"))
    write(make_machine(), root / "profiles" / "machines" / "h200.json")
    return path


def cells(root: Path) -> list[str]:
    """Of the only row."""
    _, _, row, *_ = make_table(root).replace("\xa0", " ").splitlines()
    return [cell.strip() for cell in row.strip("|").split("|")]


def spread(time: Interval, by: float) -> Interval:
    return msgspec.structs.replace(time, low=time.estimate / by, high=time.estimate * by)


def test_a_full_run_is_one_row_of_its_headline_case(tmp_path: Path) -> None:
    write_run(tmp_path)
    write_run(tmp_path, "tiny-cpu")
    name, device, now, peer, best, own, promises, link = cells(tmp_path)
    assert (name, device) == (f"{escape(WORKLOAD)}, forward", "NVIDIA H200")
    assert now.startswith("1.31 ms [") and best == "46 %"
    assert peer.startswith("6.72× [") and own.startswith("9.47× [9.30, 9.64] (chained), 12.4 ms → 1.31 ms")
    assert promises == "1 beaten, 1 kept, 1 broken"
    # none of its records is there
    assert link == f"[full-h200](reports/{WORKLOAD}/full-h200/index.md) †"


def test_a_ratio_that_is_no_claim_is_marked_and_a_bound_is_one(tmp_path: Path) -> None:
    write_run(tmp_path, stack_status=Status.INCONCLUSIVE, stack_chained=False)
    assert cells(tmp_path)[5].startswith("9.47× [9.30, 9.64] (not a claim)")
    write_run(tmp_path, stack_speedup=None, stack_at_least=830.0, stack_chained=False)
    assert cells(tmp_path)[5].startswith("at least 830×, ")


def test_a_time_whose_interval_spans_a_factor_of_two_is_not_told(tmp_path: Path) -> None:
    case = make_records().results[0]
    rows = tuple(
        msgspec.structs.replace(row, time_s=spread(row.time_s, 1.5)) if row.time_s is not None else row
        for row in case.rows
    )
    write_run(tmp_path, rows=rows)
    _, _, now, _, _, own, _, _ = cells(tmp_path)
    assert now == "–" and own == "9.47× [9.30, 9.64] (chained), a time too unsteady to be told"


def test_without_another_way_to_the_same_result_it_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, peers=())
    assert cells(tmp_path)[3] == "not measured"


def test_a_project_without_full_runs_says_so(tmp_path: Path) -> None:
    assert make_table(tmp_path) == "No full-size run is on record yet."


def test_only_what_stands_between_the_markers_is_renewed(tmp_path: Path) -> None:
    write_run(tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nend\n")
    renew_table(tmp_path, readme)
    text = readme.read_text()
    assert (
        text.startswith(f"# Title\n\n{BEGIN}\n| Workload") and text.endswith(f"\n{END}\n\nend\n") and "old" not in text
    )
    age = readme.stat().st_mtime_ns
    renew_table(tmp_path, readme)
    assert readme.stat().st_mtime_ns == age


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}"])
def test_missing_markers_are_named(tmp_path: Path, text: str) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(UserError, match="markers"):
        renew_table(tmp_path, readme)


def test_a_damaged_analysis_is_refused_by_name(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    path.write_text('{"schema": 1')
    with pytest.raises(RecordError, match=re.escape(str(path))):
        make_table(tmp_path)
