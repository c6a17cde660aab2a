"""A risk is settled by its check, or says that nobody can check it."""

from __future__ import annotations

import pytest
from synthetic_run import Phase, make_run

from phasewise.analyse.risks import settle_risks
from phasewise.records.plan import PlannedRisk, PlannedTarget
from phasewise.records.validate import CaseValidation, CheckResult, Outcome

DRIFT = PlannedRisk(title="It drifts", probability="low", impact="high", check="drift")
TASTE = PlannedRisk(title="Users notice", probability="10 %", impact="low", by_hand="nobody can check that")


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.PASS, "did not come true"),
        (Outcome.FAIL, "came true"),
        (Outcome.SKIPPED, "not checked"),
        (Outcome.FALLBACK, "not checked"),
    ],
)
def test_the_check_decides(outcome: Outcome, told: str) -> None:
    check = CheckResult(check="drift", outcome=outcome, message="energy stays within 1e-3")
    row = make_run(Phase(name="a", risks=(DRIFT,), checks=(check,))).rows()["a"]
    (risk,) = row.risks
    assert (risk.title, risk.outcome) == ("It drifts", told)
    assert "energy stays within 1e-3" in risk.evidence


def test_a_check_that_did_not_run_leaves_the_risk_open() -> None:
    (risk,) = make_run(Phase(name="a", risks=(DRIFT,), message="the kernel fell back")).rows()["a"].risks
    assert risk.outcome == "not checked"
    assert risk.evidence == "drift did not run: the kernel fell back"


def test_a_check_that_a_fallback_passed_says_nothing_of_the_phase() -> None:
    passed = CheckResult(check="drift", outcome=Outcome.PASS, message="fine")
    fallen = CaseValidation(
        case="one", outcome=Outcome.FALLBACK, message="fell back to the reference", checks=(passed,)
    )
    (risk,) = settle_risks([DRIFT], [fallen], ())
    assert (risk.outcome, risk.evidence) == ("not checked", "drift: fell back to the reference")
    (risk,) = settle_risks([DRIFT], [fallen, CaseValidation(case="two", outcome=Outcome.PASS, checks=(passed,))], ())
    assert (risk.outcome, risk.evidence) == ("did not come true", "drift on two: fine")


def test_what_nobody_can_check_is_by_hand() -> None:
    (risk,) = make_run(Phase(name="a", risks=(TASTE,))).rows()["a"].risks
    assert (risk.outcome, risk.evidence) == ("by hand", "nobody can check that")


def test_risks_of_the_workload_are_settled_at_the_end_of_the_stack() -> None:
    passed = CheckResult(check="drift", outcome=Outcome.PASS, message="fine")
    failed = CheckResult(check="drift", outcome=Outcome.FAIL, message="not fine")
    analysis, _ = make_run(
        Phase(name="a", checks=(failed,)), Phase(name="b", checks=(passed,)), risks=(DRIFT, TASTE)
    ).analyse()
    assert [risk.outcome for risk in analysis.risks] == ["did not come true", "by hand"]


@pytest.mark.parametrize(("minimum", "told"), [(1.5, "did not come true"), (2.0, "not checked"), (3.0, "came true")])
def test_a_risk_of_too_little_gain_came_true_if_its_target_is_missed(minimum: float, told: str) -> None:
    goal = PlannedTarget(name="gain", metric="speedup", case="main", against="baseline", minimum=minimum)
    little = PlannedRisk(title="Too little", probability="20 %", impact="low", target="gain")
    run = make_run(Phase(name="a", speedup=2.0, risks=(little,)), targets=(goal,), risks=(little,))
    analysis, _ = run.analyse()
    (of_run,) = analysis.risks
    (of_phase,) = run.rows()["a"].risks
    assert (of_run.outcome, of_phase.outcome) == (told, told) and "gain on main" in of_run.evidence
