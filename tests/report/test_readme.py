"""The result table of the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phasewise.records.errors import RecordError, UserError
from phasewise.report import make_table, renew_table
from phasewise.report.readme import BEGIN, END

SUMMARY = {
    "schema": 1, "workload": "toy_model", "run": "full-h200", "device": "h200", "environment": {"name": "NVIDIA H200"}, "case": "forward",
    "cases": [
        {
            "case": "forward", "baseline": {"variant": "00-baseline", "time_s": 1.24e-2, "low_s": 1.23e-2, "high_s": 1.25e-2},
            "phases": [
                {"variant": "01-a", "kept": True, "time_s": 1.31e-3, "low_s": 1.3e-3, "high_s": 1.32e-3},
                {"variant": "02-b", "kept": False, "time_s": None, "low_s": None, "high_s": None},
            ],
            "stack": {"variant": "01-a", "speedup": {"estimate": 9.47, "low": 9.3, "high": 9.64}, "level": "target"},
            "aa": {"floor": 0.006, "covers_zero": True},
        },
        {"case": "no|thing", "baseline": None, "phases": [], "stack": {"variant": None, "speedup": None, "level": "none"}, "aa": None},
    ],
}  # fmt: skip


def write_summary(root: Path, run: str = "full-h200") -> Path:
    path = root / "reports" / "toy_model" / run / "summary.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(SUMMARY))
    return path


def test_the_table_has_a_row_for_each_case_of_each_full_run(tmp_path: Path) -> None:
    write_summary(tmp_path)
    write_summary(tmp_path, "tiny-cpu")
    lines = make_table(tmp_path).replace("\xa0", " ").splitlines()
    assert len(lines) == 4
    assert "12.4 ms \\[12.3, 12.5\\]" not in lines[2] and "12.4 ms [12.3, 12.5]" in lines[2]
    assert "1.31 ms [1.30, 1.32] | 9.47× [9.30, 9.64] | – | 0.60 % | 1 of 2" in lines[2]
    assert "no&#124;thing" in lines[3] and lines[3].count("|") == lines[2].count("|")


def test_a_speed_up_that_is_no_claim_is_marked(tmp_path: Path) -> None:
    told = json.loads(json.dumps(SUMMARY))
    told["cases"][0]["stack"]["status"] = "INCONCLUSIVE"
    write_summary(tmp_path).write_text(json.dumps(told))
    assert "9.47× [9.30,\xa09.64] (not a claim) |" in make_table(tmp_path)


def test_a_product_is_marked_a_bound_is_one_and_the_strongest_peer_stands_beside_it(tmp_path: Path) -> None:
    told = json.loads(json.dumps(SUMMARY))
    stack = {"chained": True, "at_least": None, "strongest_peer": "x_y"}
    told["cases"][0]["stack"] |= stack
    told["cases"][0]["peers"] = [{"name": "x_y", "ratio": {"estimate": 2.0, "low": 1.9, "high": 2.1}}]
    told["cases"][1]["stack"] |= {"at_least": 830.0}
    write_summary(tmp_path).write_text(json.dumps(told))
    lines = make_table(tmp_path).replace("\xa0", " ").splitlines()
    assert "9.47× [9.30, 9.64] (chained) | x_y: 2.00× [1.90, 2.10] |" in lines[2]
    assert "| at least 830× |" in lines[3]


def test_a_project_without_full_runs_says_so(tmp_path: Path) -> None:
    assert make_table(tmp_path) == "No full-size run is on record yet."


def test_only_what_stands_between_the_markers_is_renewed(tmp_path: Path) -> None:
    write_summary(tmp_path)
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


def test_a_summary_of_another_schema_is_refused_by_name(tmp_path: Path) -> None:
    write_summary(tmp_path).write_text('{"schema": 2}')
    with pytest.raises(RecordError, match="schema 1"):
        make_table(tmp_path)
