"""The table of the stages, which the graph, the subcommands, `try` and `retry` read."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import yaml

from phasewise.graph import Graph
from phasewise.jobs import Job
from phasewise.model.configuration import parse_configuration
from phasewise.model.layout import Layout
from phasewise.plan import plan_runs, write_plans
from phasewise.records.machine import Machine
from phasewise.records.measure import CaseMeasurement, Measurement
from phasewise.records.plan import Kind, RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.run import Run
from phasewise.stages import MEASURE, PROFILE, STAGES, VALIDATE, list_later
from phasewise.store import digest_of, write

REPOSITORY = Path(__file__).parents[1]
CPU = Machine(device="cpu", kind="cpu", name="cpu", cores=2)


@pytest.fixture(scope="module")
def graph() -> Graph:
    schema = yaml.safe_load((REPOSITORY / "workflow/schemas/config.schema.yaml").read_text())
    plain = {"workloads": {"peered": {"source": "tests/contract/peered.py"}}}
    return Graph(
        planned=plan_runs(parse_configuration(plain, schema, "test"), REPOSITORY, CPU), layout=Layout(REPOSITORY)
    )


@pytest.fixture
def run(graph: Graph) -> Run:
    """The plans in memory."""
    (planned,) = graph.planned
    return Run(planned.run_plan.workload, planned.run_plan.run, [planned.run_plan, planned.prepare, *planned.variants])


def test_the_graph_is_planned_without_torch() -> None:
    code = "import sys, phasewise.graph; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_a_job_waits_for_each_record_that_it_is_given(graph: Graph, run: Run) -> None:
    for variant in run.rows:
        names = SimpleNamespace(workload=run.workload, run=run.name, variant=variant)
        for stage in (VALIDATE, MEASURE, PROFILE):
            files = graph.inputs(stage.name, names)
            assert len(files) == len(set(files))
            for kind, file in ((Validation, "validate.json"), (Measurement, "measure.json")):
                waited = {Path(name).parent.name for name in files if Path(name).name == file}
                records = {name: _record(kind, name) for name in run.rows}
                held = Run(run.workload, run.name, [*run.known, *records.values()])
                job = Job(stage=stage, run=held, subject=variant, layout=graph.layout)
                assert job.given(kind).keys() == waited
        measured = {Path(name).parent.name for name in graph.inputs("measure", names) if name.endswith("validate.json")}
        assert measured == {variant, *run[variant].full_plan.ancestors}


def _record(kind: type[Validation] | type[Measurement], variant: str) -> Validation | Measurement:
    of = {
        "workload": "peered",
        "run": "tiny-cpu",
        "variant": variant,
        "plan": "",
        "machine": "",
        "commit": "",
        "cases": (),
    }
    return kind(**of, **({"tier": "strict"} if kind is Validation else {}))


def test_what_is_made_from_a_stage_follows_from_what_the_others_need(run: Run) -> None:
    phase = next(name for name, row in run.rows.items() if row.kind is Kind.PHASE)
    made = {stage.name: [later.name for later in list_later(stage, run, phase)] for stage in STAGES.values()}
    assert made["validate"] == ["validate", "measure", "profile", "export", "analyse"]
    assert made["measure"] == ["measure", "analyse"]
    assert made["profile"] == ["profile", "analyse"]
    assert made["export"] == ["export"]


def test_a_prediction_is_waited_for_and_never_made_of_what_has_been_measured(graph: Graph, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    (planned,) = graph.planned
    write_plans(planned, layout)
    here = replace(graph, layout=layout)
    phase = next(plan for plan in planned.variants if plan.kind is Kind.PHASE)
    names = SimpleNamespace(workload=phase.workload, run=phase.run, variant=phase.variant)
    folder = layout.records(phase.workload, phase.run, phase.variant)
    prediction = layout.relative(folder / "predict.json")

    def asks() -> list[bool]:
        return [
            prediction in files for files in (here.inputs("measure", names), here.analyse_inputs(names), here.targets())
        ]

    assert asks() == [True, True, True]
    measured = msgspec.structs.replace(_record(Measurement, phase.variant), plan=digest_of(folder / "plan.json"))
    write(measured, folder / "measure.json")
    assert asks() == [False, False, False]
    (folder / "predict.json").touch()
    assert asks() == [True, True, True]
    # of another plan: it will be measured again
    (folder / "predict.json").unlink()
    write(msgspec.structs.replace(measured, plan="0"), folder / "measure.json")
    assert asks() == [True, True, True]


def test_what_a_prediction_waits_for_holds_no_time_of_anything(run: Run) -> None:
    phase = next(name for name, row in run.rows.items() if row.kind is Kind.PHASE)
    kinds = {kind for kind, _ in STAGES["predict"].inputs(run, phase)}
    assert kinds == {VariantPlan, RunPlan, Machine, Prepared, Profile, Validation}
    assert {name for kind, name in STAGES["predict"].inputs(run, phase) if kind is Profile} == {
        case.parent for case in run[phase].full_plan.cases
    }


def test_a_headline_is_made_from_the_ends_of_the_stack_and_its_peers(graph: Graph, run: Run) -> None:
    names = SimpleNamespace(workload=run.workload, run=run.name, case="rows")
    files = [Path(file) for file in graph.inputs("headline", names)]
    gates = {file.parent.name for file in files if file.name == "validate.json"}
    assert gates == {"00-baseline", "01-vectorised", "peer-numpy-thread"}
    # that a peer was timed tells nothing of where the stack ends
    assert {file.parent.name for file in files if file.name == "measure.json"} == {"00-baseline", "01-vectorised"}
    control = [Path(file).name for file in graph.inputs("control", names)]
    assert "headline.rows.json" in control and control.count("measure.json") == 2


def test_a_variant_or_a_run_that_is_not_planned_is_refused(graph: Graph, run: Run) -> None:
    with pytest.raises(ValueError, match="has no variant 99-none"):
        graph.inputs("measure", SimpleNamespace(workload=run.workload, run=run.name, variant="99-none"))
    with pytest.raises(ValueError, match="has no case columns"):
        graph.inputs("headline", SimpleNamespace(workload=run.workload, run=run.name, case="columns"))
    with pytest.raises(ValueError, match="not in the configuration"):
        graph.inputs("measure", SimpleNamespace(workload="other", run=run.name, variant="00-baseline"))


def test_every_record_is_a_target_and_an_input_of_the_analysis(graph: Graph, run: Run) -> None:
    targets, inputs = graph.targets(), graph.analyse_inputs(SimpleNamespace(workload=run.workload, run=run.name))
    made = {f"profiles/records/{run.workload}/{run.name}/{name}.json" for name in ("analyse", "ledger")}
    assert made == {name for name in targets if name.startswith("profiles/")} - set(inputs)
    ends = [f"{plan.variant}/plan.json" for plan in graph.planned[0].variants]
    ends += ["00-baseline/measure.json", "01-vectorised/measure.json", "headline.rows.json", "control.rows.json"]
    assert all(any(target.endswith(end) for target in targets) for end in ends)
    # the headline has its rounds
    assert not any(target.endswith("peer-numpy-thread/measure.json") for target in targets)
    none = replace(graph, planned=())
    assert none.targets() == ["reports/index.html", "reports/index.md"]


def test_what_a_job_may_take_is_learnt_from_its_like(run: Run) -> None:
    def timed(variant: str, *seconds: float) -> Measurement:
        cases = tuple(CaseMeasurement(case=f"c{number}", arms=(), seconds=one) for number, one in enumerate(seconds))
        return msgspec.structs.replace(_record(Measurement, variant), cases=cases)

    assert MEASURE.guess is not None
    guess = MEASURE.guess(run, "01-vectorised")
    assert MEASURE.expect_seconds(run, "01-vectorised", 1) == guess
    run.add(timed("00-baseline", 20.0, 30.0, 40.0))
    # the median of a case, twice, for each of two cases
    assert MEASURE.expect_seconds(run, "01-vectorised", 2) == 120.0
    run.add(timed("01-vectorised", 5.0))
    assert MEASURE.expect_seconds(run, "01-vectorised", 1) == 10.0
    assert STAGES["analyse"].expect_seconds(run, "01-vectorised", 1) is None
