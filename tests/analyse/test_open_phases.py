"""What a variant is built on, in each of its cases, is no next step of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from phasewise.analyse.open_phases import open_phases, planned_parent
from phasewise.model.configuration import parse_configuration
from phasewise.plan import plan_runs
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind

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
