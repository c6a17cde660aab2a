"""What a run tells in the terminal before everything is made."""

from __future__ import annotations

from pathlib import Path

from synthetic_run import Phase, make_run

from phasewise import run
from phasewise.cli.keep import judge_so_far
from phasewise.cli.results import describe_results, explain_doubts
from phasewise.model.layout import Layout
from phasewise.records.validate import Validation
from phasewise.records.verdict import Reason, Status, Verdict


def tell(records: run.Run, tmp_path: Path) -> str:
    judge_so_far(records)
    return describe_results(records, Layout(tmp_path))


def test_verdicts_are_told_without_a_control_and_a_headline(tmp_path: Path) -> None:
    told = tell(
        make_run(Phase(name="a", speedup=1.3), Phase(name="b", speedup=1.03), has_control=False).records(), tmp_path
    )
    rows = {line.split()[0]: line.split()[1:3] for line in told.splitlines() if line.startswith("  0")}
    assert rows["01-a"][0] == "FASTER" and rows["02-b"] == ["INCONCLUSIVE", "(below-aa-floor)"]
    assert "noise limit of the A/A controls, which is 10\u00a0% where there is none" in told
    assert "alarm: main has no A/A control: only effects over 10 % are claimed" in told


def test_what_is_not_measured_yet_is_no_verdict_on_its_speed(tmp_path: Path) -> None:
    made = make_run(Phase(name="a", speedup=1.3), Phase(name="b", speedup=1.3))
    del made.measurements["02-b"]
    told = tell(made.records(), tmp_path)
    last = next(line for line in told.splitlines() if line.startswith("  02-b"))
    assert "FASTER" in told and "FASTER" not in last and "x [" not in last


def test_before_the_first_gate_there_is_nothing_to_tell(tmp_path: Path) -> None:
    made = make_run(Phase(name="a"))
    made.validations.clear()
    records = made.records()
    assert not records.find_all(Validation) and tell(records, tmp_path) == ""


def test_one_set_of_processes_is_told_with_its_cure() -> None:
    doubt = Verdict(status=Status.INCONCLUSIVE, reason=Reason.ONE_SET)
    claim = Verdict(status=Status.FASTER, reason=Reason.INTERVAL_CLEARS_FLOOR)
    (line,) = explain_doubts([doubt, claim, doubt])
    assert line.startswith("one-set: ") and "budget: standard in workflow/config.yaml" in line
