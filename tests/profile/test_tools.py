import sys

from toy import toy_plan, write_toy

from phasewise.profile.capture import make_stepper, open_profiled
from phasewise.profile.replay import replay, warm_up
from phasewise.profile.tools import relative, run_tool, skip
from phasewise.records.plan import Kind, PlannedCase


def test_a_command_ends_at_its_limit_and_says_so():
    done = run_tool([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"], timeout_s=1.0)
    assert done.code is None
    assert "begun" in done.output and "did not end within 1 s" in done.output


def test_environment_and_both_outputs_reach_the_other_side():
    code = "import os, sys; print(os.environ['PHASEWISE_TEST']); print('trouble', file=sys.stderr); sys.exit(3)"
    done = run_tool([sys.executable, "-c", code], timeout_s=30, environment={"PHASEWISE_TEST": "there"})
    assert done.code == 3
    assert "there" in done.output and "trouble" in done.output


def test_an_unknown_refusal_quotes_the_line_with_the_error():
    assert (
        skip("ncu", "first\nError: no such thing\nlast", "nothing was counted").skipped
        == "nothing was counted: Error: no such thing"
    )
    assert skip("ncu", "", "nothing was counted").skipped == "nothing was counted"


def test_paths_in_records_are_relative_to_the_project(tmp_path):
    assert relative(tmp_path / "a" / "b.json", tmp_path) == "a/b.json"
    assert relative(tmp_path / "b.json", tmp_path / "elsewhere") == "b.json"


def test_a_slow_step_is_not_warmed_up_with_three(tmp_path, monkeypatch):
    write_toy(tmp_path)
    stepped = []
    monkeypatch.setattr("phasewise.profile.capture.Stepper.run", lambda self, index: stepped.append(index))
    stepper = make_stepper(open_profiled(toy_plan(tmp_path), "one", tmp_path))
    # the first step compiles: what it takes says nothing
    times = iter((0.0, 30.0, 30.0, 32.0))
    warm_up(stepper, 3, clock=lambda: next(times))
    assert stepped == [0, 1]


def test_a_slow_baseline_is_stepped_for_nsight_where_the_other_profilers_see_it(tmp_path, monkeypatch):
    write_toy(tmp_path)
    case = PlannedCase(case="one", shape={"width": 4000}, switches={}, baseline_at=({"width": 8}, {"width": 16}))
    shapes = []
    monkeypatch.setattr(
        "phasewise.profile.capture.Stepper.run", lambda self, index: shapes.append(self.case.shape.width)
    )
    replay(toy_plan(tmp_path, kind=Kind.BASELINE, cases=(case,)), "one", tmp_path, steps=1, warmup=0)
    replay(toy_plan(tmp_path, kind=Kind.PHASE, cases=(case,)), "one", tmp_path, steps=1, warmup=0)
    assert shapes == [8, 4000]


def test_a_case_can_be_stepped_alone(tmp_path, monkeypatch):
    write_toy(tmp_path)
    stepped = []
    monkeypatch.setattr("phasewise.profile.capture.Stepper.run", lambda self, index: stepped.append(index))
    replay(toy_plan(tmp_path), "one", tmp_path, steps=2, warmup=3)
    assert stepped == [0, 1, 2, 0, 1]
