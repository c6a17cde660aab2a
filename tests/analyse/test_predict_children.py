"""A prediction is made from the parent's records alone, and for the phases that are built on it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from synthetic_profile import profile
from synthetic_run import BASELINE, GPU, Phase, Run, make_run

from phasewise.analyse import analyse_variant
from phasewise.analyse.predict import open_phases, planned_parent
from phasewise.model.configuration import parse_configuration
from phasewise.plan import plan_runs
from phasewise.records.analyse import Prediction, VariantAnalysis
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind
from phasewise.records.profile import Breakdown, CaseProfile, Count, Probe, Profile
from phasewise.store import digest

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


def only(found: VariantAnalysis) -> Prediction:
    (prediction,) = found.predictions
    return prediction


def test_a_found_finding_gives_its_gain() -> None:
    run = make_run(Phase(name="graph", because="launch-gaps", expect=(1.1, 9.0)))
    found = analyse(run, IDLE)
    prediction = only(found)
    assert (prediction.basis, prediction.finding, prediction.parent) == ("critical-path", "launch-gaps", BASELINE)
    finding = next(f for f in found.cases[0].findings if f.finding == "launch-gaps")
    assert finding.gain is not None and (prediction.low, prediction.high) == (finding.gain.low, finding.gain.high)
    assert finding.suggests == "graph"
    # the measured step of 1 ms: the kernels' 0.4 ms stay, and 100 nodes of the graph
    assert prediction.high == pytest.approx(1 / (0.4 + 0.13), rel=0.02)


def test_it_names_the_records_that_it_was_made_from() -> None:
    run = make_run(Phase(name="graph"))
    made_from = only(analyse(run, IDLE)).made_from
    assert digest(run.measurements[BASELINE]) in made_from
    assert digest(run.validations[BASELINE]) in made_from
    assert len(made_from) == 3


@pytest.mark.parametrize("step", [None, profile(), profile(graph_replay=True)])
def test_without_a_finding_the_author_speaks(step: CaseProfile | None) -> None:
    run = make_run(Phase(name="graph", because="launch-gaps", expect=(1.2, 3.0)))
    prediction = only(analyse(run, step))
    assert (prediction.basis, prediction.finding, prediction.low, prediction.high) == ("author", "author", 1.2, 3.0)


def test_without_a_finding_and_an_author_there_is_no_prediction() -> None:
    assert analyse(make_run(Phase(name="graph")), profile()).predictions == ()


def test_an_idea_is_the_authors_even_if_it_is_spelt_like_a_finding() -> None:
    run = make_run(Phase(name="graph", because="launch-gaps", is_idea=True, expect=(1.2, 3.0)))
    assert only(analyse(run, IDLE)).basis == "author"


def test_a_probe_is_named_as_the_basis() -> None:
    probe = Probe(finding="launch-gaps", what="captured", now_s=1e-3, then_s=0.5e-3, calls=1)
    prediction = only(analyse(make_run(Phase(name="graph")), msgspec.structs.replace(IDLE, probes=(probe,))))
    assert prediction.basis == "probe"
    # the host's 1.6 of 2 ms shrink to 0.6 of the measured 1 ms, of which the probe saves a half
    assert (prediction.low, prediction.high) == pytest.approx((1 / (1 - 0.24), 1 / (1 - 0.33)), rel=0.01)


def test_only_phases_built_on_the_variant_are_predicted() -> None:
    run = make_run(
        Phase(name="alternative", keep=False),
        Phase(name="graph"),
        Phase(name="later"),
        Phase(name="absent", skip="needs 8 GPUs"),
    )
    assert [found.phase for found in analyse(run, IDLE).predictions] == ["alternative", "graph"]
    assert [found.phase for found in analyse(run, IDLE, "02-graph").predictions] == ["later"]


def test_the_floor_is_told_beside_the_findings() -> None:
    found = analyse(make_run(Phase(name="graph")), IDLE).cases[0]
    assert found.floor_kind == "memory"
    assert found.floor_s == pytest.approx(1e6 / 4e12)
    assert found.floor_fraction == pytest.approx(1e6 / 4e12 / 1e-3, rel=0.01)


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


CONTRACT = sorted(path.stem for path in (Path(__file__).parents[1] / "contract").glob("*.py"))


@pytest.mark.parametrize("name", CONTRACT)
def test_the_parent_in_each_case_is_the_plans_and_what_is_built_on_is_no_next_step(repository: Path, name: str) -> None:
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    source = f"tests/contract/{name}.py"
    configuration = parse_configuration({"workloads": {name: {"source": source}}}, schema, "test")
    machine = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
    (planned,) = plan_runs(configuration, repository, machine)
    for plan in planned.variants:
        row = next(row for row in planned.run_plan.variants if row.variant == plan.variant)
        if row.kind is Kind.PHASE:
            for case in plan.cases:
                assert planned_parent(planned.run_plan, row, case.case) == case.parent
                below = {phase.phase for phase in planned.run_plan.phases if phase.variant in case.ancestors}
                assert below.isdisjoint(open_phases(planned.run_plan, plan.variant, case.case).values())
