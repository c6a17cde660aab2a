"""What an author has to know first is said in one sentence each."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_plan import GPU
from synthetic_run import Phase, cut_controls, make_run

from phasewise.analyse import analyse_variant
from phasewise.records.analyse import CaseAnalysis, Finding, VariantAnalysis
from phasewise.records.plan import PlannedTarget
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Failure, Reason


def alarms(*phases: Phase, **more: object) -> str:
    return "\n".join(make_run(*phases, **more).analyse()[0].alarms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "phase",
    [
        Phase(name="a", speedup=0.7),
        Phase(name="a", outcome=Outcome.FAIL, message="gradient of w is off"),
        Phase(name="a", failure=Failure(reason=Reason.TIMEOUT, message="too long")),
    ],
)
def test_a_kept_phase_that_lost_should_not_be_kept(phase: Phase) -> None:
    told = alarms(phase)
    assert "a is kept and" in told and "set keep=False" in told


def test_a_crash_is_to_be_mended() -> None:
    told = alarms(Phase(name="a", failure=Failure(reason=Reason.CRASH, message="ValueError: boom (kernels.py:12)")))
    assert "(crash): ValueError: boom (kernels.py:12); mend it." in told and "keep=False" not in told


@pytest.mark.parametrize(("speedup", "status"), [(0.7, "SLOWER"), (1.0, "changes nothing")])
def test_the_author_s_reason_to_keep_a_phase_stands_in_place_of_the_advice(speedup: float, status: str) -> None:
    told = alarms(Phase(name="a", speedup=speedup, stays="b reads its layout."))
    (sentence,) = (line for line in told.splitlines() if line.startswith("a is kept and"))
    assert status in sentence and sentence.endswith("; its author says: b reads its layout.")
    assert "keep=False" not in told and "keep it only" not in told


def test_no_reason_excuses_a_phase_that_is_wrong() -> None:
    told = alarms(Phase(name="a", outcome=Outcome.FAIL, message="gradient of w is off", stays="b reads its layout"))
    assert "a is kept and INVALID" in told and "set keep=False" in told


def test_a_phase_that_is_not_kept_may_lose() -> None:
    assert "set keep=False" not in alarms(Phase(name="a", speedup=0.7, keep=False))


def test_a_kept_phase_that_changes_nothing_is_mentioned() -> None:
    assert "a is kept and changes nothing in main" in alarms(Phase(name="a"))


def test_a_gate_that_did_not_refuse_is_the_first_alarm() -> None:
    found = make_run(Phase(name="slow", speedup=0.5), Phase(name="bad", must="INVALID")).analyse()[0].alarms
    assert found[0].startswith("02-bad in main: the gate had to refuse it")


def test_records_of_two_machines_are_named() -> None:
    told = alarms(Phase(name="a", speedup=2.0, machine="another GPU"))
    assert "records come from 2 machines" in told and "another GPU" in told


def test_a_gate_may_come_from_a_host_with_other_cores_and_from_no_other_gpu() -> None:
    def told(machine: str) -> str:
        run = make_run(Phase(name="a", speedup=2.0))
        run.validations["01-a"] = msgspec.structs.replace(run.validations["01-a"], machine=machine)
        return "\n".join(run.analyse()[0].alarms)

    gpu, _, cores = GPU.identity.rpartition("; ")
    assert cores.endswith("cores")
    assert "records come from" not in told(f"{gpu}; 999 cores")
    assert "records come from 2 machines" in told(f"another GPU; {cores}")


def test_a_missing_record_is_a_hole() -> None:
    assert "01-a: no measurement record" in alarms(Phase(name="a", has_measurement=False))
    assert "01-a" not in alarms(Phase(name="a", untimed="needs CUDA", has_measurement=False))


def test_a_control_that_leaves_out_one_is_told() -> None:
    assert "its interval leaves out 1" in alarms(Phase(name="a", speedup=2.0), aa=1.05)
    assert "leaves out 1" not in alarms(Phase(name="a", speedup=2.0))
    assert "has no A/A control" in alarms(Phase(name="a", speedup=2.0), has_control=False)
    alone = cut_controls(make_run(Phase(name="a", speedup=2.0), aa=1.05), 1).analyse()[0]
    assert "its interval leaves out 1: of one set of processes, so it tells no noise limit." in " ".join(alone.alarms)


@pytest.mark.parametrize(("outcome", "is_told"), [("absent", True), ("found", False), ("abstained", False)])
def test_a_reason_that_the_parents_profile_lacks_is_told(outcome: str, is_told: bool) -> None:
    run = make_run(Phase(name="a", speedup=2.0, because="launch-gaps"))
    findings = (Finding(finding="launch-gaps", outcome=outcome),)
    run.analyses["00-baseline"] = VariantAnalysis(
        workload="toy", run="full-h200", variant="00-baseline", cases=(CaseAnalysis(case="main", findings=findings),)
    )
    assert ("says it answers launch-gaps" in "\n".join(run.analyse()[0].alarms)) is is_told


def test_a_target_without_a_value_is_told() -> None:
    goal = PlannedTarget(
        name="energy", metric="energy_j_per_item", case="main", against="absolute", minimum=1.0, better="lower"
    )
    assert "target 'energy' has no value" in alarms(Phase(name="a", speedup=2.0), targets=(goal,))
    elsewhere = msgspec.structs.replace(goal, size="tiny")
    assert "has no value" not in alarms(Phase(name="a", speedup=2.0), targets=(elsewhere,))


def test_a_baseline_that_only_lacks_what_a_phase_gives_is_no_alarm() -> None:
    oom = Failure(reason=Reason.OUT_OF_MEMORY, message="no room")
    dead = Phase(name="baseline", failure=oom)
    assert "the baseline is FAILED" in alarms(Phase(name="a", failure=oom), baseline=dead)
    assert "the baseline is FAILED" not in alarms(Phase(name="a", parent_failure=oom), baseline=dead)


def test_findings_by_other_peaks_or_code_than_the_verdicts_are_named() -> None:
    run = make_run(Phase(name="a", speedup=2.0))
    run.analyses["01-a"] = analyse_variant(run.records(), "01-a")
    assert "two kinds" not in "\n".join(run.analyse()[0].alarms)
    assert GPU.peaks is not None
    run.machine = msgspec.structs.replace(GPU, peaks=msgspec.structs.replace(GPU.peaks, copy_bytes_per_s=1.0))
    (told,) = [line for line in run.analyse()[0].alarms if "two kinds" in line]
    assert "01-a" in told
    # an older record does not say by what
    run.analyses["01-a"] = msgspec.structs.replace(run.analyses["01-a"], judged_by="")
    assert "two kinds" not in "\n".join(run.analyse()[0].alarms)
