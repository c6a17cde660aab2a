"""What to do next follows from the end of the stack, and the catalogue is a document."""

from __future__ import annotations

from synthetic_run import Phase, make_run, predict

from phasewise.analyse import CATALOGUE
from phasewise.analyse.catalogue import HEADINGS, render_catalogue
from phasewise.records.analyse import CaseAnalysis, Finding, VariantAnalysis
from phasewise.records.base import Interval


def found(name: str, gain: float | None, suggests: str | None = None, seconds: float = 0.0) -> Finding:
    interval = Interval(estimate=gain, low=1.0, high=gain * 2) if gain is not None else None
    return Finding(
        finding=name, outcome="found", advice=f"cure {name}", gain=interval, suggests=suggests, seconds=seconds
    )


def steps(*findings: Finding, lost: float = 0.5):
    run = make_run(Phase(name="a", speedup=2.0), Phase(name="b", speedup=lost, keep=False))
    case = CaseAnalysis(case="main", findings=findings)
    run.analyses["01-a"] = VariantAnalysis(workload="toy", run="full-h200", variant="01-a", cases=(case,))
    return run.analyse()[0].next_steps


def test_the_most_promising_comes_first() -> None:
    told = steps(found("memory-capacity", None), found("launch-gaps", 1.2), found("fusible-chain", 3.0))
    assert [step.finding for step in told] == ["fusible-chain", "launch-gaps", "memory-capacity"]


def test_what_holds_the_most_time_comes_before_what_gains_most() -> None:
    told = steps(found("launch-gaps", 3.0, seconds=1e-3), found("fusible-chain", 1.2, seconds=2e-3))
    assert [(step.finding, step.seconds) for step in told] == [("fusible-chain", 2e-3), ("launch-gaps", 1e-3)]


def test_near_the_roof_the_advice_is_to_stop() -> None:
    told = steps(found("launch-gaps", 1.2), found("near-the-roof", None))
    assert [step.finding for step in told] == ["near-the-roof"]


def test_a_phase_that_was_tried_in_vain_is_not_suggested() -> None:
    (lost,) = steps(found("launch-gaps", 1.2, suggests="b"))
    (won,) = steps(found("launch-gaps", 1.2, suggests="b"), lost=1.5)
    assert (lost.phase, won.phase) == (None, "b")


def test_a_prediction_from_another_parent_is_not_scored() -> None:
    run = make_run(Phase(name="a", speedup=2.0), Phase(name="b", speedup=1.5))
    run.analyses["00-baseline"] = predict("b", "02-b", "00-baseline", 1.4, 1.6)
    _, ledger = run.analyse()
    assert [(score.measured, score.inside) for score in ledger.scores] == [(None, None)]


def test_the_document_holds_every_finding_with_its_four_parts() -> None:
    text = render_catalogue()
    sections = text.split("\n## ")[1:]
    assert [section.split("\n")[0] for section in sections] == [name for name, _ in CATALOGUE]
    for section in sections:
        assert [line[4:].split(":**")[0] for line in section.splitlines() if line.startswith("- **")] == list(HEADINGS)
