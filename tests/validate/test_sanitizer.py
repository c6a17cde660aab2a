"""What compute-sanitizer says becomes a guard, and where it can't run that is said too."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.records.validate import Outcome
from phasewise.store import write
from phasewise.validate import sanitizer
from phasewise.validate.sanitized import step_once
from phasewise.validate.sanitizer import judge_output, run_sanitizer
from plans import make_plan

HERE = Path(__file__).parent
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
INVALID = (
    "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n"
    "=========     at _scan_kernel+0x1a0\n========= ERROR SUMMARY: 3 errors\n"
)
RACE = (
    "========= COMPUTE-SANITIZER\n========= Error: Race reported between Write access at _sum_kernel\n"
    "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
)
REFUSED = "========= COMPUTE-SANITIZER\n========= Error: device not supported\n"


@pytest.mark.parametrize(
    ("code", "output", "outcome", "sentence"),
    [
        (0, CLEAN, Outcome.PASS, ""),
        (9, INVALID, Outcome.FAIL, "memcheck found 3 errors: Invalid __global__ write of size 4 bytes"),
        (9, RACE, Outcome.FAIL, "memcheck found 1 errors: Error: Race reported"),
        (1, REFUSED, Outcome.SKIPPED, "could not run (exit status 1): Error: device not supported"),
        (0, "", Outcome.SKIPPED, "it said nothing"),
    ],
)
def test_exit_status_and_output_become_a_guard(code, output, outcome, sentence):
    found = judge_output("memcheck", code, output)
    assert (found.guard, found.outcome) == ("sanitizer-memcheck", outcome)
    assert sentence in found.message


def plan_of():
    return make_plan("gated.py", HERE, cases=("product",))


def test_an_absent_tool_is_a_skip_with_its_cure(monkeypatch):
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: None)
    guards = run_sanitizer(plan_of(), "product", HERE)
    assert [guard.outcome for guard in guards] == [Outcome.SKIPPED] * 2
    assert "install the CUDA toolkit" in guards[0].message


def test_a_tool_is_run_on_one_step_of_the_variant(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {tmp_path}/asked\nprintf '{CLEAN}'\n".replace("\n=", "\\n="))
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: tool)
    guards = run_sanitizer(plan_of(), "product", HERE)
    assert [guard.outcome for guard in guards] == [Outcome.PASS] * 2, guards
    asked = (tmp_path / "asked").read_text().split("\n")
    assert asked.count("phasewise.validate.sanitized") == 2
    assert {"memcheck", "racecheck"} <= set(asked)


def test_a_tool_that_hangs_is_given_up_on(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "find_tool", lambda name: tool)
    monkeypatch.setattr(sanitizer, "TIMEOUT_S", 0.1)
    assert "was not done after 0.1 s" in run_sanitizer(plan_of(), "product", HERE)[0].message


def test_the_watched_step_runs(tmp_path):
    file = tmp_path / "plan.json"
    write(plan_of(), file)
    step_once(file, "product", HERE)
