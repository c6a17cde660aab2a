"""The table of the stages, which the graph, the subcommands, `try` and `retry` read."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from phasewise.graph import Graph
from phasewise.model.configuration import parse_configuration
from phasewise.model.layout import Layout
from phasewise.plan import plan_runs
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind
from phasewise.records.validate import Validation
from phasewise.run import Run
from phasewise.stages import MEASURE, PROFILE, STAGES, VALIDATE, Job, list_later

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
    for variant, row in run.rows.items():
        names = SimpleNamespace(workload=run.workload, run=run.name, variant=variant)
        for stage in (VALIDATE, MEASURE, PROFILE):
            files = graph.inputs(stage.name, names)
            assert len(files) == len(set(files))
            for kind, file in ((Validation, "validate.json"), (Measurement, "measure.json")):
                waited = {Path(name).parent.name for name in files if Path(name).name == file}
                records = {name: _record(kind, name) for name in run.rows}
                held = Run(run.workload, run.name, [*run.held, *records.values()])
                job = Job(stage=stage, run=held, subject=variant, layout=graph.layout)
                assert job.given(kind).keys() == waited
        measured = {Path(name).parent.name for name in graph.inputs("measure", names) if name.endswith("validate.json")}
        own = set() if row.kind is Kind.CONTROL else {variant}
        assert measured == {*own, *run[variant].full_plan.ancestors}


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


def test_a_variant_or_a_run_that_is_not_planned_is_refused(graph: Graph, run: Run) -> None:
    with pytest.raises(ValueError, match="has no variant 99-none"):
        graph.inputs("measure", SimpleNamespace(workload=run.workload, run=run.name, variant="99-none"))
    with pytest.raises(ValueError, match="not in the configuration"):
        graph.inputs("measure", SimpleNamespace(workload="other", run=run.name, variant="00-baseline"))


def test_every_record_is_a_target_and_an_input_of_the_analysis(graph: Graph, run: Run) -> None:
    targets, inputs = graph.targets(), graph.analyse_inputs(SimpleNamespace(workload=run.workload, run=run.name))
    assert {name for name in targets if name.startswith("profiles/")} <= set(inputs)
    ends = [f"{plan.variant}/{name}" for plan in graph.planned[0].variants for name in ("plan.json", "measure.json")]
    assert all(any(target.endswith(end) for target in targets) for end in ends)
    none = replace(graph, planned=())
    assert none.targets() == ["reports/index.html", "reports/index.md"]
