"""`summary.json` keeps its shape, whatever happened to the run."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from synthetic_run import Peer, Phase, Run, make_run, predict

import phasewise.analyse
from phasewise.analyse import make_summary, summarise
from phasewise.records.export import Export, ExportResult, ExportStatus
from phasewise.records.plan import PlannedRisk, PlannedTarget
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Failure, Reason
from phasewise.store import decode, encode

SCHEMA = json.loads((Path(phasewise.analyse.__file__).parent / "summary.schema.json").read_text())
GOAL = PlannedTarget(name="speed", metric="speedup", case="main", against="baseline", minimum=2.0)
RISK = PlannedRisk(title="It <b>drifts</b>", probability="low", impact="high", check="drift")
EXPORT = Export(
    workload="toy",
    run="full-h200",
    variant="01-a",
    plan="0",
    machine="m",
    commit="abc",
    results=(ExportResult(case="main", format="onnx", status=ExportStatus.UNSUPPORTED, reason="complex numbers"),),
)


def full_run() -> Run:
    run = make_run(
        Phase(name="a", speedup=2.0, part="one", risks=(RISK,)),
        Phase(name="b", outcome=Outcome.FAIL, keep=False),
        Phase(name="c", failure=Failure(reason=Reason.TIMEOUT, message="10 s"), keep=False),
        Phase(name="d", skip="needs 2 GPUs"),
        targets=(GOAL,),
        parts=("one",),
        peers=(Peer(name="numpy", slower=4.0),),
    )
    run.analyses["00-baseline"] = predict("a", "01-a", "00-baseline", 1.8, 2.4)
    return run


def holes() -> Run:
    run = make_run(Phase(name="a"), targets=(GOAL,))
    run.measurements.clear()
    run.validations.clear()
    run.plans.clear()
    run.prepared = None
    return run


@pytest.mark.parametrize("make", [full_run, holes, make_run])
def test_it_fits_the_schema(make) -> None:
    run = make()
    analysis, _ = run.analyse()
    plain = json.loads(summarise(analysis, run.run_plan, run.machine, {"01-a": EXPORT}))
    jsonschema.validate(plain, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert plain["cases"][0].items() <= plain.items()


def test_the_top_level_is_the_headline_case_and_says_what_the_records_say() -> None:
    run = full_run()
    analysis, _ = run.analyse()
    plain = make_summary(analysis, run.run_plan, run.machine, {"01-a": EXPORT})
    phase = plain["phases"][0]
    assert phase["speedup_previous"]["estimate"] == pytest.approx(2.0, rel=0.01)
    assert phase["predicted"] == {"low": 1.8, "high": 2.4, "level": None, "basis": "critical-path"}
    assert phase["risks"][0]["title"] == "It <b>drifts</b>"
    assert plain["stack"]["variant"] == "01-a"
    assert (plain["stack"]["status"], plain["stack"]["reason"]) == ("FASTER", "interval-clears-floor")
    assert plain["parts"][0]["status"] == "FASTER"
    assert plain["targets"][0]["level"] == "undecided"
    assert plain["peers"][0]["ratio"]["estimate"] == pytest.approx(4.0, rel=0.01)
    assert plain["peers"][0]["version"] == "1.2"
    assert plain["environment"]["name"] == "NVIDIA H200"
    assert analysis.machine == run.machine
    assert plain["environment"]["commits"] == ["abc"]
    assert plain["aa"]["covers_zero"] is True
    assert [row["status"] for row in plain["phases"]] == ["FASTER", "INVALID", "FAILED", "SKIPPED"]
    assert plain["exports"][0]["status"] == "unsupported"


def test_the_first_step_is_the_cold_one_and_its_price_is_told_in_steps() -> None:
    row = full_run().analyse()[0].cases[0].rows[1]
    # build and first step with empty caches: 1 + 2 s, 2 s longer than the baseline's 1 s; a step gains 0.5 ms
    assert row.first_step_s == pytest.approx(3.0)
    assert row.pays_after_steps == pytest.approx(4000, rel=0.05)


def test_every_field_that_others_rely_on_is_required() -> None:
    # the shape that was promised; a field that is dropped or renamed breaks readers outside this repository
    promised = {
        "phase": "variant phase part parent kept switches status reason speedup_previous speedup_baseline time_s low_s high_s chained "
        "level documented predicted validation max_error tier peak_memory_bytes energy_j_per_item first_step_s risks",
        "baseline": "variant time_s low_s high_s items_per_s",
        "stack": "variant speedup level",
        "part": "part speedup level",
        "target": "name metric unit case against value low high minimum target stretch level",
        "peer": "name version variant status validation time_s ratio",
        "case": "case items baseline phases stack aa peers",
    }
    for name, fields in promised.items():
        assert set(fields.split()) <= set(SCHEMA["$defs"][name]["required"]), name
    top = "schema workload run device environment case items baseline phases stack parts targets aa peers cases"
    assert set(top.split()) <= set(SCHEMA["required"])


def test_the_analysis_survives_being_written_and_read() -> None:
    analysis, ledger = full_run().analyse()
    assert decode(encode(analysis), type(analysis), "test") == analysis
    assert decode(encode(ledger), type(ledger), "test") == ledger


def test_an_analysis_without_what_may_be_claimed_of_the_stack_is_read() -> None:
    analysis, _ = full_run().analyse()
    plain = json.loads(encode(analysis))
    for case in plain["cases"]:
        del case["stack_status"], case["stack_reason"]
        for part in case["parts"]:
            del part["status"]
        for row in case["rows"]:
            del row["verdict"]["baseline_status"], row["verdict"]["baseline_reason"]
    read = decode(json.dumps(plain).encode(), type(analysis), "test")
    assert read.cases[0].stack_status is None and read.cases[0].stack_speedup == analysis.cases[0].stack_speedup


def test_the_same_records_give_the_same_bytes() -> None:
    one, two = full_run(), full_run()
    assert encode(one.analyse()[0]) == encode(two.analyse()[0])
