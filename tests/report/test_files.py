"""What render writes, and when it leaves a file alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pandas
import pytest

from phasewise import store
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError
from phasewise.report import render_index, render_run, require_chart_packages
from phasewise.report.blocks import Table
from phasewise.report.overview import make_overview
from phasewise.report.rows import find_machine
from phasewise.run import Run
from report.make import RUN, WORKLOAD, change, make_records
from report.make_less import make_small_records
from report.reading import as_html, read_html

SUMMARY = f'{{"schema": 1, "workload": "{WORKLOAD}", "run": "{RUN}", "cases": []}}\n'.encode()


def write_run(root: Path, run: Run | None = None) -> Path:
    """All records of a synthetic run, where the stages put them."""
    run, layout = run or make_small_records(), Layout(root)
    there = Run(WORKLOAD, RUN, [run.plan], layout=layout)
    for record in run.known:
        store.write(record, there.path(type(record), getattr(record, "variant", "")))
    folder = layout.run(WORKLOAD, RUN)
    store.write_bytes(SUMMARY, folder / "summary.json")
    return layout.report(WORKLOAD, RUN)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    write_run(root, make_records())
    render_run(root, WORKLOAD, RUN)
    render_index(root)
    return root


@pytest.fixture
def root(rendered: Path, tmp_path: Path) -> Path:
    """A project with the shared script alone: to bundle it takes longer than to render a small run."""
    (tmp_path / "reports").mkdir()
    shutil.copyfile(rendered / "reports" / "vega.js", tmp_path / "reports" / "vega.js")
    return tmp_path


def test_a_run_is_told_with_the_machine_that_it_was_judged_on(tmp_path: Path) -> None:
    records = make_small_records()
    here = msgspec.structs.replace(records.machine, gpus=2, cores=32)
    write_run(tmp_path, change(records, msgspec.structs.replace(records.analysis, machine=here)))
    assert find_machine(Run(WORKLOAD, RUN, layout=Layout(tmp_path))) == here
    # judged before that was kept
    write_run(tmp_path, records)
    assert find_machine(Run(WORKLOAD, RUN, layout=Layout(tmp_path))) == records.machine


def test_pages_figures_summary_and_the_shared_script_are_written(rendered: Path) -> None:
    folder = Layout(rendered).report(WORKLOAD, RUN)
    for name in ("index", "week-1", "week-2", "phases"):
        assert (folder / f"{name}.html").is_file() and (folder / f"{name}.md").is_file()
    named = set(re.findall(r"\(figures/([a-z0-9-]+\.svg)\)", "".join(path.read_text() for path in folder.glob("*.md"))))
    assert named == {path.name for path in (folder / "figures").iterdir()} and len(named) > 15
    assert (folder / "summary.json").read_bytes() == SUMMARY
    script = (rendered / "reports" / "vega.js").read_text()
    assert script.startswith("/* Vega ") and "figure > script.spec" in script


def test_results_kernels_and_operators_are_written_as_tables_that_other_tools_read(rendered: Path) -> None:
    folder = Layout(rendered).report(WORKLOAD, RUN) / "tables"
    tables = {path.name: path for path in folder.iterdir()}
    titles = ("results", "kernels", "operators")
    assert set(tables) == {f"{title}.{ending}" for title in titles for ending in ("csv", "parquet")}
    run = make_records()
    judged = {(case.case, row.variant): row for case in run.results for row in case.rows}
    traced = [
        (held.name, case.case, kernel)
        for held in run.variants if held.profile for case in held.profile.cases for kernel in case.kernels
    ]  # fmt: skip
    for read, ending in ((pandas.read_csv, "csv"), (pandas.read_parquet, "parquet")):
        results = read(tables[f"results.{ending}"]).set_index(["case", "variant"])
        assert list(results.index) == list(judged) and "verdict.over_parent" not in results
        for key, row in judged.items():
            over = row.verdict.over_parent
            assert results.loc[key, "verdict.status"] == row.verdict.status
            assert pandas.isna(results.loc[key, "verdict.over_parent.low"]) if over is None else (
                results.loc[key, "verdict.over_parent.low"] == over.low
            )  # fmt: skip
        kernels = read(tables[f"kernels.{ending}"])
        told = list(kernels[["variant", "case", "name", "seconds"]].itertuples(index=False, name=None))
        assert told == [(variant, case, kernel.name, kernel.seconds) for variant, case, kernel in traced] and told


def test_nothing_on_a_page_names_this_machine_or_this_moment(rendered: Path) -> None:
    for path in (rendered / "reports").rglob("*.*"):
        if path.name != "vega.js" and path.is_file():
            assert str(rendered).encode() not in path.read_bytes()


def test_files_keep_their_age_when_nothing_changed(tmp_path: Path) -> None:
    write_run(tmp_path)
    ages = []
    for _ in range(2):
        render_run(tmp_path, WORKLOAD, RUN)
        render_index(tmp_path)
        ages.append({path: path.stat().st_mtime_ns for path in (tmp_path / "reports").rglob("*") if path.is_file()})
    assert ages[0] == ages[1]


def test_the_index_of_all_runs_names_every_run_with_its_headline(rendered: Path) -> None:
    reader = read_html((rendered / "reports" / "index.html").read_text())
    text = "".join(reader.text)
    assert {"toy_model/full-h200/index.html"} <= {link["href"] for link in reader.all("a")}
    assert "9.47×" in text and "[9.30,\xa09.64]" in text and "Energy and forces of toy molecules" in text
    assert "toy\\_model" not in (rendered / "reports" / "index.md").read_text()


def test_two_runs_of_one_workload_are_told_apart(tmp_path: Path) -> None:
    analysis = make_records().analysis
    cases = tuple(msgspec.structs.replace(case, peers=()) for case in analysis.cases)
    for name in (RUN, "full-h100"):
        folder = Layout(tmp_path).run(WORKLOAD, name)
        store.write(msgspec.structs.replace(analysis, run=name, cases=cases), folder / "analyse.json")
    text = "".join(read_html(as_html(make_overview(tmp_path))).text)
    assert f"Not compared with one: {WORKLOAD} on full-h100, {WORKLOAD} on {RUN}." in text


def test_risks_are_weighed_by_the_probability_that_they_were_given(rendered: Path) -> None:
    """One is settled by a check in two phases' rows; the other nobody can check."""
    (table,) = [
        block for block in make_overview(rendered).sections[0].blocks
        if isinstance(block, Table) and block.caption == "Risks, by their probability"
    ]  # fmt: skip
    assert table.rows == (("medium", "1", "0"),)


def test_what_git_keeps_does_not_change_with_a_trial_beside_it(rendered: Path, tmp_path: Path) -> None:
    shutil.copytree(rendered, tmp_path / "project")
    root, layout = tmp_path / "project", Layout(tmp_path / "project")
    kept = {path: path.read_bytes() for path in (root / "reports").glob("*.*")}
    assert {path.name for path in kept} == {"index.html", "index.md", "metrics.json", "phases.json", "vega.js"}
    for workload in (WORKLOAD, "another"):
        trial = msgspec.structs.replace(make_records().analysis, workload=workload, run="tiny-cpu")
        store.write(trial, layout.run(workload, "tiny-cpu") / "analyse.json")
        told = SUMMARY.replace(RUN.encode(), b"tiny-cpu").replace(WORKLOAD.encode(), workload.encode())
        store.write_bytes(told, layout.report(workload, "tiny-cpu") / "summary.json")
        render_index(root)
        changed = {path.name for path, content in kept.items() if path.read_bytes() != content}
        # a workload that has no other run is told of
        assert changed == (set() if workload == WORKLOAD else {"index.html", "index.md", "metrics.json"})


def test_the_index_stands_without_any_run(tmp_path: Path) -> None:
    render_index(tmp_path)
    assert "No run is on record yet" in (tmp_path / "reports" / "index.html").read_text()


def test_pages_of_an_earlier_plan_are_removed(root: Path) -> None:
    folder = write_run(root)
    for stale in ("week-9.html", "week-9.md", "figures/old.svg", "tables/old.csv"):
        store.write_bytes(b"old", folder / stale)
    store.write_bytes(b"mine", folder / "notes.txt")
    render_run(root, WORKLOAD, RUN)
    assert (
        not (folder / "week-9.html").exists()
        and not (folder / "week-9.md").exists()
        and not (folder / "figures" / "old.svg").exists()
        and not (folder / "tables" / "old.csv").exists()
    )
    assert (folder / "notes.txt").exists()


def test_corrupt_newer_and_missing_records_are_holes_with_their_reason(root: Path) -> None:
    folder = Layout(root).run(WORKLOAD, RUN)
    report = write_run(root)
    store.write_bytes(b"{not json", folder / "ledger.json")
    store.write_bytes(b'{"schema": 99}', folder / "00-baseline" / "profile.json")
    (folder / "02-fused-message" / "validate.json").unlink()
    render_run(root, WORKLOAD, RUN)
    text = "".join(read_html((report / "index.html").read_text()).text)
    assert "3 records are missing" in text
    assert "ledger.json: not a whole JSON record" in text
    assert "schema 99 is unknown" in text
    assert "02-fused-message/validate.json: not there yet" in text
    assert str(root) not in text


def test_a_run_without_any_record_still_renders(root: Path) -> None:
    render_run(root, "nobody", "tiny-cpu")
    assert "Nothing has been analysed yet" in (Layout(root).report("nobody", "tiny-cpu") / "index.html").read_text()


def test_missing_chart_packages_are_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "vl_convert" else object())
    with pytest.raises(UserError, match=r"vl-convert-python is not installed.*phasewise\[report\]"):
        require_chart_packages()


def test_damaged_files_beside_the_records_are_one_sentence_or_made_anew(root: Path) -> None:
    pages = write_run(root)
    pages.mkdir(parents=True)
    (pages / "gone.html").mkdir()
    (root / "reports" / "vega.js").write_bytes(b"\xff\xfe\n")
    render_run(root, WORKLOAD, RUN)
    assert (root / "reports" / "vega.js").read_bytes().startswith(b"/* Vega")
    (pages / "summary.json").write_text("[]")
    with pytest.raises(UserError, match=r"summary\.json: not a summary of schema 1"):
        render_index(root)
    (pages / "summary.json").unlink()
    (pages / "index.html").unlink()
    (pages / "index.html").mkdir()
    with pytest.raises(UserError, match=r"index\.html: cannot be written"):
        render_run(root, WORKLOAD, RUN)


@pytest.mark.parametrize("rate", [0, -1, None])
def test_a_peak_that_nothing_can_be_divided_by_is_a_damaged_record(rate: float | None) -> None:
    records = make_small_records()
    plain = msgspec.to_builtins(records.machine)
    plain["peaks"]["copy_bytes_per_s"] = rate
    with pytest.raises(UserError, match="not a"):
        store.decode(msgspec.json.encode(plain), type(records.machine), "machine.json")
