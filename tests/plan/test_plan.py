"""Planning: quick, without torch, and written only where it changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import yaml

from phasewise.graph import Graph
from phasewise.model.configuration import parse_configuration
from phasewise.model.layout import Layout
from phasewise.model.stack import BASELINE
from phasewise.plan import plan_runs, write_plans
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind

CPU = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
CONTRACT = (
    "alternatives",
    "checked",
    "group",
    "layout",
    "memory",
    "peered",
    "prepared",
    "sampling",
    "slow",
    "training",
    "two_cases",
)

RISKY = """
from dataclasses import dataclass
from phasewise import Case, Check, Phase, Program, Risk, Shape, Workload

@dataclass(frozen=True)
class Switches:
    fast: bool = False

def mine(context): ...
def make_inputs(case, shape, seed): ...
def build(switches, inputs, case, shape, device): return Program(step=None)

def risk(check):
    return Risk(check, probability="low", impact="low", symptom="s", mitigation="m", contingency="c", check=check)

workload = Workload(
    summary="Two cases", switches=Switches,
    cases={"one": Case(tiny=Shape(n=1)), "two": Case(tiny=Shape(n=2))},
    phases=(Phase("faster", {"fast": True}, because="serial-loop", risks=(risk("mine"), risk("memory-flat"))),),
    checks=(Check("mine", when="final", cases=("one",)),),
)
"""


def plan_contract(repository, name, **options):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    source = f"tests/contract/{name}.py"
    configuration = parse_configuration({"workloads": {name: {"source": source}}, **options}, schema, "test")
    return plan_runs(configuration, repository, CPU)[0]


@pytest.mark.parametrize("name", CONTRACT)
def test_every_contract_workload_plans(repository, name):
    planned = plan_contract(repository, name)
    names = [plan.variant for plan in planned.variants]
    assert names[0] == "00-baseline"
    assert len(names) == len(set(names))


def test_a_workload_for_gpus_is_left_out_on_a_cpu(repository):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    there = {name: {"source": f"tests/contract/{name}.py"} for name in ("layout", "slow")}
    there["slow"]["where"] = "cuda"
    plain = {"workloads": there}
    assert [run.run_plan.workload for run in plan_runs(parse_configuration(plain, schema, "t"), repository, CPU)] == [
        "layout"
    ]
    there["layout"]["where"] = "cuda"
    with pytest.raises(PlanError, match="set where: any"):
        plan_runs(parse_configuration(plain, schema, "t"), repository, CPU)


def test_a_case_is_exported_of_its_last_kept_variant_only(repository):
    planned = {plan.variant: plan for plan in plan_contract(repository, "two_cases").variants}
    assert (planned["01-vectorised"].exported, planned["02-inplace"].exported) == (("rows",), ("scale",))
    assert planned["00-baseline"].exported == ()
    assert plan_contract(repository, "two_cases", capture="all").variants[0].exported is None


def test_gates_wait_for_the_baselines_alone_unless_it_is_too_slow_to_be_followed(repository):
    run = plan_contract(repository, "alternatives", size="tiny")
    baseline, *others = run.variants
    last = max((plan for plan in others if plan.kind is Kind.PHASE), key=lambda plan: len(plan.ancestors))
    case = last.cases[0].case

    def gates_of(*, sampled, too_slow, elders=4):
        ancestors = (*(plan.variant for plan in reversed(others[:elders])), BASELINE)
        planned = msgspec.structs.replace(last.cases[0], sample_items=sampled, ancestors=ancestors)
        plan = msgspec.structs.replace(last, variant="99-last", cases=(planned,), ancestors=ancestors)
        slow = baseline
        if too_slow:
            scaled = msgspec.structs.replace(baseline.cases[0], case=case, baseline_at=({"rows": 1}, {"rows": 2}))
            slow = msgspec.structs.replace(baseline, cases=(scaled,))
        row = msgspec.structs.replace(run.run_plan.variants[-1], variant=plan.variant)
        told = msgspec.structs.replace(run.run_plan, variants=(*run.run_plan.variants, row))
        planned_run = replace(run, run_plan=told, variants=(slow, *others, plan))
        graph = Graph(planned=(planned_run,), layout=Layout(repository))
        names = SimpleNamespace(workload=plan.workload, run=plan.run, variant=plan.variant)
        files = [Path(file) for file in graph.inputs("validate", names)]
        return [file.parent.name for file in files if file.name == "validate.json"]

    assert gates_of(sampled=None, too_slow=False) == [BASELINE]
    assert gates_of(sampled=4, too_slow=False) == [BASELINE]
    # the eldest two that can be followed, and no more: a gate waits for theirs
    eldest = [plan.variant for plan in others[:2]]
    assert gates_of(sampled=4, too_slow=True) == [*reversed(eldest), BASELINE]
    assert gates_of(sampled=4, too_slow=True, elders=1) == [eldest[0], BASELINE]


def test_a_bound_in_seconds_is_meant_for_the_largest_size_of_its_case(repository):
    (tiny_only,) = plan_contract(repository, "training").run_plan.targets
    assert (tiny_only.metric, tiny_only.size) == ("items_per_s", "tiny")


def test_an_unchanged_plan_keeps_its_file(repository, tmp_path):
    planned, layout = plan_contract(repository, "training"), Layout(tmp_path)
    write_plans(planned, layout)
    file = layout.records("training", "tiny-cpu", "01-foreach") / "plan.json"
    before = file.stat().st_mtime_ns
    write_plans(planned, layout)
    assert file.stat().st_mtime_ns == before


def plan_text(repository, folder, text):
    folder.mkdir()
    (folder / "same.py").write_text(text)
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    configuration = parse_configuration({"workloads": {"w": {"source": "same.py"}}}, schema, "test")
    return plan_runs(configuration, folder, CPU)[0]


def test_a_better_sentence_changes_the_story_and_no_variant(repository, tmp_path):
    text = (repository / "tests/contract/training.py").read_text()
    edited = text.replace("Resume differs", "A resumed run differs").replace('"""A training', '"""One training')
    one, two = plan_text(repository, tmp_path / "one", text), plan_text(repository, tmp_path / "two", edited)
    assert one.run_plan.phases != two.run_plan.phases
    assert one.variants == two.variants


def test_a_changed_switch_changes_that_phase_and_what_is_built_on_it(repository, tmp_path):
    text = (repository / "tests/contract/two_cases.py").read_text()
    edited = text.replace("inplace: bool = False", "inplace: bool = False\n    block: int = 1")
    edited = edited.replace('{"vectorised": True}, because', '{"vectorised": True, "block": 2}, because')
    plans = [plan_text(repository, tmp_path / name, part) for name, part in (("one", text), ("two", edited))]
    # both files have other definitions, so the sources of all differ
    one, two = (
        {plan.variant: msgspec.structs.replace(plan, sources="") for plan in planned.variants} for planned in plans
    )
    assert {name for name in one if one[name] != two[name]} == {"01-vectorised"}


def test_an_unknown_case_phase_or_size_is_refused(repository):
    with pytest.raises(PlanError, match="'x' is unknown; choose among train-step"):
        plan_contract(
            repository,
            "training",
            **{"workloads": {"training": {"source": "tests/contract/training.py", "cases": ["x"]}}},
        )
    with pytest.raises(PlanError, match="none of its cases has the size 'full'"):
        plan_contract(repository, "training", size="full")
    with pytest.raises(PlanError, match="no NVIDIA GPU"):
        plan_contract(repository, "training", device="cuda")


def test_an_absent_or_wrong_source_is_named(tmp_path, repository):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())

    def plan(source):
        return plan_runs(parse_configuration({"workloads": {"w": {"source": source}}}, schema, "test"), tmp_path, CPU)

    with pytest.raises(PlanError, match="no such file"):
        plan("none.py")
    with pytest.raises(PlanError, match="not installed"):
        plan("no_such_package.phases")
    (tmp_path / "empty_workload.py").write_text("x = 1\n")
    with pytest.raises(PlanError, match=r"define `workload = Workload"):
        plan("empty_workload.py")
    (tmp_path / "broken_workload.py").write_text("def (:\n")
    with pytest.raises(PlanError, match="SyntaxError"):
        plan("broken_workload.py")


def test_a_risk_runs_its_check_in_the_cases_that_the_check_is_declared_for(repository, tmp_path):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    (tmp_path / "risky.py").write_text(RISKY)
    configuration = parse_configuration({"workloads": {"risky": {"source": "risky.py"}}}, schema, "test")
    plans = {plan.variant: plan for plan in plan_runs(configuration, tmp_path, CPU)[0].variants}
    checks = {check.name: check.cases for check in plans["01-faster"].checks}
    assert checks["mine"] == ("one",) and checks["memory-flat"] == ("one", "two")


def test_a_check_that_is_declared_twice_is_run_by_a_risk_where_either_says(repository, tmp_path):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    twice = '(Check("mine", when="final", cases=("two",)), Check("mine", when="final", cases=("one",)))'
    later = 'Phase("later", {"more": True}, because="serial-loop")'
    (tmp_path / "risky.py").write_text(
        RISKY.replace('(Check("mine", when="final", cases=("one",)),)', twice)
        .replace('risk("memory-flat"))),)', f'risk("memory-flat"))), {later})')
        .replace("fast: bool = False", "fast: bool = False\n    more: bool = False")
    )
    configuration = parse_configuration({"workloads": {"risky": {"source": "risky.py"}}}, schema, "test")
    plans = {plan.variant: plan for plan in plan_runs(configuration, tmp_path, CPU)[0].variants}
    assert {check.name: check.cases for check in plans["01-faster"].checks}["mine"] == ("one", "two")
