"""Planning: quick, without torch, and written only where it changed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from phasewise.model.configuration import parse_configuration
from phasewise.model.layout import Layout
from phasewise.plan import plan_runs, write_plans
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine

CPU = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
CONTRACT = ("alternatives", "checked", "group", "layout", "memory", "peered", "prepared", "sampling", "slow", "training", "two_cases")


def plan_contract(repository, name, **options):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    source = f"tests/workloads/contract/{name}.py"
    configuration = parse_configuration({"workloads": {name: {"source": source}}, **options}, schema, "test")
    return plan_runs(configuration, repository, CPU)[0]


@pytest.mark.parametrize("name", CONTRACT)
def test_every_contract_workload_plans(repository, name):
    planned = plan_contract(repository, name)
    names = [plan.variant for plan in planned.variants]
    assert names[0] == "00-baseline" and "aa" in names
    assert len(names) == len(set(names))


def test_planning_imports_no_torch_and_takes_well_under_a_second(repository):
    code = (
        "import sys, time; start = time.perf_counter()\n"
        "from phasewise.cli import main\n"
        "main(['plan', '--quiet'])\n"
        "print('torch' in sys.modules, time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    imported, seconds = done.stdout.split()
    assert imported == "False"
    # a loaded two-core machine; alone it takes a fifth of that
    assert float(seconds) < 2.0


def test_an_unchanged_plan_keeps_its_file(repository, tmp_path):
    planned, layout = plan_contract(repository, "training"), Layout(tmp_path)
    write_plans(planned, layout)
    file = layout.records("training", "tiny-cpu", "01-foreach") / "plan.json"
    before = file.stat().st_mtime_ns
    write_plans(planned, layout)
    assert file.stat().st_mtime_ns == before


def test_a_better_sentence_changes_the_story_and_no_variant(repository, tmp_path):
    text = (repository / "tests/workloads/contract/training.py").read_text()
    (tmp_path / "one.py").write_text(text)
    (tmp_path / "two.py").write_text(text.replace("Resume differs", "A resumed run differs").replace("A training", "# A training"))
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    plans = []
    for name in ("one", "two"):
        configuration = parse_configuration({"workloads": {"w": {"source": f"{name}.py"}}}, schema, "test")
        plans.append(plan_runs(configuration, tmp_path, CPU)[0])
    assert plans[0].run_plan.phases != plans[1].run_plan.phases
    assert [plan.sources for plan in plans[0].variants] == [plan.sources for plan in plans[1].variants]


def test_a_changed_switch_changes_that_phase_and_what_is_built_on_it(repository, tmp_path):
    text = (repository / "tests/workloads/contract/two_cases.py").read_text()
    (tmp_path / "one.py").write_text(text)
    (tmp_path / "two.py").write_text(text.replace('{"vectorised": True}, because', '{"vectorised": True, "inplace": True}, because'))
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    found = []
    for name in ("one", "two"):
        configuration = parse_configuration({"workloads": {"w": {"source": f"{name}.py"}}}, schema, "test")
        found.append({plan.variant: plan.cases for plan in plan_runs(configuration, tmp_path, CPU)[0].variants})
    changed = {name for name in found[0] if found[0][name] != found[1][name]}
    assert changed == {"01-vectorised", "aa"}


def test_an_unknown_case_phase_or_size_is_refused(repository):
    with pytest.raises(PlanError, match="'x' is unknown; choose among train-step"):
        plan_contract(repository, "training", **{"workloads": {"training": {"source": "tests/workloads/contract/training.py", "cases": ["x"]}}})
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
