"""What holds a variant back is told from its own records alone."""

from __future__ import annotations

import msgspec
import pytest
from synthetic_profile import profile
from synthetic_run import BASELINE, GPU, Phase, Run, make_run

from phasewise.analyse import analyse_variant
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.predict import Prediction
from phasewise.records.profile import Breakdown, CaseProfile, Count, Profile

IDLE = profile(
    breakdown=Breakdown(wall_s=2e-3, kernel_s=0.4e-3, launch_gap_s=1.2e-3, host_s=0.4e-3), count=Count(launches=100)
)


def analyse(run: Run, step: CaseProfile | None, variant: str = BASELINE) -> VariantAnalysis:
    record = step and Profile(
        workload="toy", run="full-h200", variant=variant, plan="0", machine=GPU.identity, commit="abc", cases=(step,)
    )
    records = run.records()
    if record is not None:
        records.add(record)
    return analyse_variant(records, variant)


def test_a_found_finding_names_the_phase_that_answers_it_and_its_gain() -> None:
    found = analyse(make_run(Phase(name="graph", because="launch-gaps")), IDLE)
    finding = next(f for f in found.cases[0].findings if f.finding == "launch-gaps")
    assert finding.suggests == "graph" and finding.gain is not None
    # the measured step of 1 ms: the kernels' 0.4 ms stay, and 100 nodes of the graph
    assert finding.gain.high == pytest.approx(1 / (0.4 + 0.13), rel=0.02)


def test_the_floor_is_told_beside_the_findings() -> None:
    found = analyse(make_run(Phase(name="graph")), IDLE).cases[0]
    # its bytes take 0.25 us, and its launch 1.3
    assert (found.floor_kind, found.floor_s) == ("launch", 1.3e-6)
    assert found.floor_fraction == pytest.approx(1.3e-6 / 1e-3, rel=0.01)


def test_a_variant_that_nothing_is_known_of_still_gets_a_record() -> None:
    run = make_run(Phase(name="graph"))
    run.prepared = None
    run.measurements.clear()
    run.validations.clear()
    found = analyse(run, None)
    assert {finding.outcome for finding in found.cases[0].findings} == {"abstained"}
    assert found.cases[0].floor_s is None


def test_a_profile_at_a_smaller_shape_is_not_held_against_the_floor_of_the_full_one() -> None:
    smaller = msgspec.structs.replace(IDLE, facts={"profiled_at": "Shape(n=10)"})
    findings = {found.finding: found for found in analyse(make_run(Phase(name="graph")), smaller).cases[0].findings}
    assert findings["near-the-roof"].outcome == "abstained"
    # the traced step of 2 ms, not the measured one of 1 ms
    assert findings["launch-gaps"].seconds == pytest.approx(1.6e-3)


def test_predictions_on_record_are_kept_when_a_variant_is_analysed_again() -> None:
    """What was said before the outcome was known can't be said again."""
    run = make_run(Phase(name="graph"))
    told = Prediction(
        phase="graph", case="main", variant="01-graph", parent=BASELINE, low=1.2, high=2.0, basis="critical-path", finding="launch-gaps",
    )  # fmt: skip
    before = VariantAnalysis(workload="toy", run="full-h200", variant=BASELINE, cases=(), predictions=(told,))
    records = run.records()
    records.add(before, BASELINE)
    found = analyse_variant(records, BASELINE)
    assert found.predictions == (told,) and found.cases
