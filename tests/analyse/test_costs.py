"""What a run took is the sum of what its records tell."""

from __future__ import annotations

from msgspec.structs import replace
from synthetic_run import Phase, make_run

from phasewise.analyse.costs import tell_costs
from phasewise.records.base import Record, StageRecord
from phasewise.records.cost import StageCost
from phasewise.records.measure import CaseMeasurement, ControlMeasurement, HeadlineMeasurement
from phasewise.run import Run


def of_case(kind: type[Record], seconds: float, **changes: object) -> Record:
    measured = CaseMeasurement(case="main", arms=(), seconds=seconds)
    return kind(
        workload="toy", run="full-h200", case="main", plans={}, machine="m", commit="c", measured=measured, **changes
    )


def take(record: StageRecord, seconds: float) -> StageRecord:
    return replace(record, cases=tuple(replace(case, seconds=seconds) for case in record.cases))


def synthetic() -> tuple[Run, list[str]]:
    run = make_run(Phase(name="a"))
    for records, seconds in ((run.validations, 2.0), (run.measurements, 30.0)):
        for name, record in records.items():
            records[name] = take(record, seconds)
    return run.records(), [name for name in run.plans if name in run.measurements]


def test_each_stage_is_told_in_the_order_of_the_flow_and_one_without_a_time_is_left_out() -> None:
    run, timed = synthetic()
    run.add(of_case(HeadlineMeasurement, 40.0))
    run.add(of_case(ControlMeasurement, 5.0))
    found = {cost.stage: cost for cost in tell_costs(run)}
    assert [*found] == ["validate", "measure", "headline", "control"]
    assert found["measure"] == StageCost(stage="measure", cases=len(timed), seconds=30.0 * len(timed), alone=True)
    assert found["headline"] == StageCost(stage="headline", cases=1, seconds=40.0, alone=True)
    assert not found["validate"].alone


def test_rounds_that_are_a_variant_s_own_are_counted_once() -> None:
    run, _ = synthetic()
    run.add(of_case(HeadlineMeasurement, 30.0, own_of="01-a"))
    assert [cost.stage for cost in tell_costs(run)] == ["validate", "measure"]


def test_a_run_without_records_took_nothing() -> None:
    run = make_run(Phase(name="a"))
    run.measurements.clear()
    run.validations.clear()
    assert tell_costs(run.records()) == ()
