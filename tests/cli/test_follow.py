"""What `phasewise run` says: a line a job, what failed and why, then what the phases came to."""

from __future__ import annotations

import os

import pytest

from phasewise.cli.follow import LOG, follow
from phasewise.cli.job_lines import describe_outcome
from phasewise.cli.results import describe_results
from phasewise.model.layout import Layout
from phasewise.records.analyse import Analysis, CaseAnalysis, CaseResult, Finding, Row, VariantAnalysis
from phasewise.records.base import Interval
from phasewise.records.plan import Kind
from phasewise.records.validate import CaseValidation, Outcome, TensorError, Validation
from phasewise.records.verdict import Failure, Level, Reason, Status, Verdict
from phasewise.run import Run

GOOD = """
rule all:
    input: "profiles/records/w/tiny-cpu/00-baseline/validate.json"

rule validate:
    output: "profiles/records/{workload}/{run}/{variant}/validate.json"
    shell: "echo chatter; cp given.json {output}"
"""
BAD = """
rule measure:
    output: "made/{workload}/{variant}"
    log: "logs/{workload}/{variant}.log"
    shell: "(echo first; echo 'phasewise: no such thing; cure it') > {log}; false"
"""


def make_gate(*cases: CaseValidation) -> Validation:
    return Validation(
        workload="w", run="tiny-cpu", variant="00-baseline", plan="", machine="", commit="", tier="strict", cases=cases
    )


def run_snakemake(folder, *words):
    options = ["--cores", "1", "--directory", str(folder), "--snakefile", str(folder / "Snakefile")]
    return follow([*options, *words], os.environ, Layout(folder))


def test_a_job_is_a_line_from_its_record_and_snakemakes_lines_go_to_the_log(tmp_path, capfd):
    from phasewise.store import write

    (tmp_path / "Snakefile").write_text(GOOD)
    error = TensorError(
        kind="output", name="y", step=0, elements=1, max_abs=0.0, relative=0.0, worst=0.25, outcome=Outcome.PASS
    )
    write(make_gate(CaseValidation(case="only", outcome=Outcome.PASS, errors=(error,))), tmp_path / "given.json")
    code, followed = run_snakemake(tmp_path)
    assert code == 0 and len(followed.ended) == 2
    said = capfd.readouterr()
    assert said.out == "[1 of 1] validate w 00-baseline: right, off by at most 0.25 of what is allowed\n"
    assert said.err == ""
    log = (tmp_path / LOG).read_text()
    assert "chatter" in log and "Finished jobid" in log


def test_a_job_that_fails_is_told_with_the_end_of_its_log(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Snakefile").write_text(BAD)
    code, followed = run_snakemake(tmp_path, "--", "made/w/01-fast")
    assert code == 1 and not followed.ended
    said = capfd.readouterr()
    assert said.err == "measure w 01-fast failed: first / phasewise: no such thing; cure it (logs/w/01-fast.log)\n"


def test_what_snakemake_refuses_is_in_the_log(tmp_path, capfd):
    (tmp_path / "Snakefile").write_text(BAD)
    code, followed = run_snakemake(tmp_path, "--", "nosuch")
    assert code == 1 and not followed.ended and not followed.failed
    assert "nosuch" in (tmp_path / LOG).read_text()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (CaseValidation(case="a", outcome=Outcome.FAIL, message="output 'y' is off"), "fail: output 'y' is off"),
        (
            CaseValidation(
                case="a", outcome=Outcome.FAIL, failure=Failure(reason=Reason.CRASH, message="ValueError: no (w.py:3)")
            ),
            "ValueError: no (w.py:3)",
        ),
    ],
)
def test_a_red_gate_says_why(case, words):
    assert describe_outcome(make_gate(case)) == words
    assert describe_outcome(make_gate(case, CaseValidation(case="b", outcome=Outcome.PASS))) == f"a {words}; b pass"


def test_an_analysis_names_what_it_found():
    found = tuple(
        Finding(finding=name, outcome=outcome) for name, outcome in (("host-sync", "found"), ("launch-gaps", "absent"))
    )
    record = VariantAnalysis(workload="w", run="r", variant="v", cases=(CaseAnalysis(case="only", findings=found),))
    assert describe_outcome(record) == "host-sync"


def test_the_table_has_phase_verdict_speed_up_and_error_then_alarms_and_the_page(tmp_path):
    def row(variant, kind, verdict, error):
        return Row(
            variant=variant, kind=kind, phase=None, part=None, parent=None, kept=True, switches={}, sets={}, verdict=verdict,
            max_error=error,
        )  # fmt: skip

    ratio = Interval(estimate=22.49, low=18.0, high=28.1)
    rows = (
        row("00-baseline", Kind.BASELINE, Verdict(status=Status.BASELINE), 5.1e-8),
        row(
            "01-fast",
            Kind.PHASE,
            Verdict(status=Status.FASTER, reason=Reason.INTERVAL_CLEARS_FLOOR, over_parent=ratio),
            3e-7,
        ),
        row("02-wrong", Kind.PHASE, Verdict(status=Status.INVALID, reason=Reason.RED_GATE), None),
        row("03-other", Kind.PHASE, Verdict(status=Status.SKIPPED, reason=Reason.CASE_NOT_CHOSEN), None),
    )
    layout = Layout(tmp_path)
    case = CaseResult(
        case="only", items=1.0, item="items", floor_s=None, floor_kind="", rows=rows, stack=None, stack_speedup=None,
        stack_level=Level.NONE, control=None,
    )  # fmt: skip
    analysis = Analysis(workload="w", run="tiny-cpu", commits=(), machines=(), cases=(case,), alarms=("look here",))
    run = Run("w", "tiny-cpu", [analysis], layout=layout)
    lines = describe_results(run, layout).splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["phase", "verdict", "speed-up", "over", "the", "baseline", "error"],
        ["00-baseline", "BASELINE", "-", "-", "5.1e-08"],
        ["01-fast", "FASTER", "22.5x", "[18,", "28.1]", "-", "3e-07"],
        ["02-wrong", "INVALID", f"({Reason.RED_GATE})", "-", "-", "-"],
    ]
    assert lines[5:] == ["", "alarm: look here"]
    page = tmp_path / "reports/w/tiny-cpu/index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    assert describe_results(run, layout).endswith("page: reports/w/tiny-cpu/index.html")
    assert describe_results(Run("v", "tiny-cpu", layout=layout), layout) == ""
