"""What the plans of the studies show of planning."""

from __future__ import annotations

import subprocess
import sys

import pytest

from phasewise.model.configuration import parse_configuration
from phasewise.plan import plan_runs
from phasewise.records.machine import Machine

CPU = Machine(device="cpu", kind="cpu", name="cpu", cores=2)


@pytest.mark.parametrize("capture", ["ends", "all"])
def test_a_case_without_a_module_is_not_exported(repository, capture):
    configuration = parse_configuration({"workloads": {"resnet_bk": {}}, "capture": capture}, {}, "test")
    (run,) = plan_runs(configuration, repository, CPU)
    written = [
        tuple(planned.case for planned in plan.cases) if plan.exported is None else plan.exported
        for plan in run.variants
        if plan.exporters
    ]
    # a variant that would export nothing has no such job
    assert all(written) and set().union(*written) == {"forward", "decode"}


def test_a_bound_in_seconds_is_meant_for_the_largest_size_of_its_case(repository):
    configuration = parse_configuration({"workloads": {"bk_core": {}}}, {}, "test")
    sizes = {target.metric: target.size for target in plan_runs(configuration, repository, CPU)[0].run_plan.targets}
    assert sizes == {"time_s": "full", "speedup": "", "floor_fraction": ""}


def test_planning_imports_no_torch_and_takes_less_time_than_that_would(repository):
    code = (
        "import sys, time\n"
        "from phasewise.cli import main\n"
        "main(['plan', '--quiet'])\n"
        "imported, planned = 'torch' in sys.modules, time.process_time()\n"
        "import torch\n"
        "print(imported, planned, time.process_time() - planned)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    imported, planned_s, torch_s = done.stdout.split()
    assert imported == "False"
    # processor time, interpreter included, side by side in one process: 0.6 s and 1.2 s on two idle cores
    assert float(planned_s) < float(torch_s)
