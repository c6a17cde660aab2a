"""Two runs beside each other: which verdicts changed and by how much, which kernels came, went, grew; and what CI is told."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from phasewise.cli import commands
from phasewise.model.layout import Layout
from phasewise.records.analyse import Analysis, CaseResult, Row
from phasewise.records.base import Interval
from phasewise.records.plan import Kind
from phasewise.records.profile import Breakdown, CaseProfile, Kernel, Profile
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.run import Run
from phasewise.store import write


def put(folder, name, phases, kernels):
    """A run of one case on disk: {phase: (status, speed-up or None)}, {kernel: seconds} of the last."""
    rows = tuple(
        Row(
            variant=f"0{index}-{phase}", kind=Kind.PHASE, phase=phase, part=None, parent="00-baseline", kept=True, switches={},
            sets={}, verdict=Verdict(
                status=status, reason=Reason.NONE,
                over_parent=None if ratio is None else Interval(estimate=ratio, low=0.95 * ratio, high=1.05 * ratio),
            ),
        )
        for index, (phase, (status, ratio)) in enumerate(phases.items(), 1)
    )  # fmt: skip
    case = CaseResult(
        case="only", items=1.0, item="items", floor_s=None, floor_kind="", rows=rows, stack=rows[-1].variant, stack_speedup=None,
        stack_level=Level.NONE, control=None,
    )  # fmt: skip
    analysis = Analysis(workload="w", run=name, commits=(), machines=(), cases=(case,))
    wall = sum(kernels.values())
    profile = Profile(
        workload="w", run=name, variant=rows[-1].variant, plan="", machine="", commit="",
        cases=(
            CaseProfile(
                case="only", breakdown=Breakdown(wall_s=wall, kernel_s=wall),
                kernels=tuple(Kernel(name=one, calls=1, seconds=s, category="other") for one, s in kernels.items()),
            ),
        ),
    )  # fmt: skip
    run = Run("w", name, layout=Layout(folder))
    write(analysis, run.path(Analysis))
    write(profile, run.path(Profile, profile.variant))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    phases = {"tf32": (Status.FASTER, 2.0), "graph": (Status.FASTER, 3.0), "gone": (Status.SAME, 1.0)}
    put(tmp_path, "full-h100", phases, {"gemm": 4e-3, "copy": 1e-3, "noise": 1e-6})
    return tmp_path


def call(*words):
    return CliRunner().invoke(commands, ["diff", *words], standalone_mode=False)


def test_the_same_run_has_nothing_to_tell(project):
    done = call("w/full-h100", "w/full-h100")
    assert done.output == "w: full-h100 -> full-h100\n  only: nothing changed\n"
    assert not done.return_value


def test_changes_are_told_by_phase_and_kernel_and_what_is_worse_is_told_to_ci(project):
    phases = {"new": (Status.FASTER, 1.5), "tf32": (Status.FASTER, 2.02), "graph": (Status.SLOWER, 0.8)}
    put(project / "other", "full-h100", phases, {"gemm": 5e-3, "fused": 2e-3, "noise": 5e-6})
    done = call("w/full-h100", "other/w/full-h100")
    assert done.output.splitlines()[1:] == [
        "  only: worse: graph FASTER -> SLOWER, 3x [2.85, 3.15] -> 0.8x [0.76, 0.84] over its parent",
        "  only: gone went (SAME)",
        "  only: new came (FASTER)",
        "  only: kernel fused came, 2 ms a step",
        "  only: kernel gemm grew, 4 ms -> 5 ms a step",
        "  only: kernel copy went, 1 ms a step",
    ]
    assert done.return_value == 11
    told = json.loads(call("w/full-h100", "other/w/full-h100", "--json").output)
    assert [change["phase"] for change in told["cases"][0]["verdicts"] if change["is_worse"]] == ["graph"]


@pytest.mark.parametrize(("ratio", "code"), [(2.6, 11), (3.1, 0), (3.6, 0)])
def test_a_speed_up_is_worse_only_beyond_both_intervals(project, ratio, code):
    put(project, "small-l4", {"graph": (Status.FASTER, ratio)}, {"gemm": 4e-3})
    put(project, "small-l5", {"graph": (Status.FASTER, 3.0)}, {"gemm": 4e-3})
    assert (call("w/small-l5", "w/small-l4").return_value or 0) == code


@pytest.mark.parametrize("name", ["w/full-h200", "w", "nosuch/full-h100"])
def test_a_run_that_was_not_judged_is_one_sentence(project, name):
    done = call("w/full-h100", name)
    assert "no such run has been judged; write WORKLOAD/RUN" in str(done.exception)
