"""Judge a cheat as the graph would: planned, validated and measured beside the honest baseline in a project of its own, then analysed.

`python tests/cheats/play.py NAME...` prints a line for each.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from phasewise.analyse import analyse_run
from phasewise.environment import detect
from phasewise.measure import measure_variant
from phasewise.measure.progress import Silent
from phasewise.model.configuration import Configuration, WorkloadOptions
from phasewise.model.layout import Layout
from phasewise.plan.make import Payload, PlannedRun
from phasewise.records.measure import Measurement
from phasewise.records.plan import Budget, Kind, VariantPlan
from phasewise.records.validate import Validation
from phasewise.records.verdict import Status, Verdict
from phasewise.run import Run
from phasewise.store import read, write
from phasewise.validate import validate_variant
from phasewise.workers.isolated import run_isolated

# one thread each, as in `make test`: cheats and honest programs then wait for no other's threads
os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
PARTS = ("honest_parts.py", "costly.py", "pipes.py")
WORKLOAD, CASE = "corpus", "main"
# a gain of a tenth shows
BUDGET = Budget(min_rounds=6, max_rounds=6, min_sets=2, max_sets=2, seconds=60.0, timeout_s=60.0)
PAUSE_S = 0.5
NO_GAIN = frozenset({Status.SAME, Status.SLOWER, Status.INCONCLUSIVE, Status.INVALID, Status.FAILED, Status.SKIPPED})


def play(file: Path, *, size: str = "tiny", device: str = "cpu") -> tuple[Status, str]:
    """The verdict's status, and its reason with what it says."""
    verdict = judge(file, size=size, device=device)
    return verdict.status, f"{verdict.reason}: {verdict.detail}".strip(": ")


def judge(file: Path, *, size: str = "tiny", device: str = "cpu") -> Verdict:
    """The verdict on the phase of the workload in `file`, with its ratio if it has one."""
    with tempfile.TemporaryDirectory(prefix="phasewise-cheat-") as folder:
        root = Path(folder)
        planned = plan(file, root, size=size, device=device)
        validate(planned, root)
        # what a program has left behind has as long as between two jobs of a graph
        time.sleep(PAUSE_S)
        return judge_once(planned, root, device)


def judge_once(planned: PlannedRun, root: Path, device: str) -> Verdict:
    """Measure the phase behind the gates that stand on disk, and analyse that."""
    validations = _read_gates(planned, root)
    variant = _variant(planned)
    plans = read_plans(planned, root)
    # a record of one variant, and those of its ancestors: what the graph gives the stage
    measured = measure_variant(
        plans[variant], plans, validations, root=root, machine=detect(device).identity, commit="", progress=Silent()
    )
    return _analyse(planned, root, validations, {variant: measured}, device)


def plan(file: Path, root: Path, *, size: str = "tiny", device: str = "cpu") -> PlannedRun:
    """A project below `root` with that workload, its plans on disk."""
    for source in (file, *(HERE / part for part in PARTS)):
        shutil.copy(source, root)
    (root / "requirements.lock").touch()
    options = WorkloadOptions(name=WORKLOAD, source=file.name, size=size)
    configuration = Configuration(workloads=(options,), size=size, device=device)
    payload = Payload(configuration=configuration, options=options, root=str(root), machine=detect(device))
    found = run_isolated(f"{HERE.parent / 'plan_forked.py'}:plan_plainly", msgspec.to_builtins(payload), folder=root)
    planned = msgspec.convert(found, PlannedRun)
    # a verdict without a control claims what is over a tenth
    arms = tuple(one for one in planned.variants if one.kind in (Kind.BASELINE, Kind.PHASE))
    planned = replace(planned, variants=arms)
    for variant in planned.variants:
        small = msgspec.structs.replace(variant, budget=BUDGET, profilers=(), exporters=())
        write(small, _records(root, variant) / "plan.json")
    return planned


def validate(planned: PlannedRun, root: Path) -> dict[str, Validation]:
    """The gates of the baseline and of the phase; they stand on disk too."""
    for variant in planned.variants:
        # each stage of the graph reads its files anew
        plans = read_plans(planned, root)
        found = validate_variant(
            plans[variant.variant], plans, _read_gates(planned, root), root=root, machine=detect(variant.device).identity,
            commit="",
        )  # fmt: skip
        write(found, _records(root, variant) / "validate.json")
    return _read_gates(planned, root)


def leave_phase(planned: PlannedRun) -> PlannedRun:
    """Without the baseline, so that its own error is not compared with."""
    return replace(planned, variants=tuple(one for one in planned.variants if one.kind is Kind.PHASE))


def read_plans(planned: PlannedRun, root: Path) -> dict[str, VariantPlan]:
    """The plans as they stand on disk now."""
    return {one.variant: read(_records(root, one) / "plan.json", VariantPlan) for one in planned.variants}


def _read_gates(planned: PlannedRun, root: Path) -> dict[str, Validation]:
    files = {one.variant: _records(root, one) / "validate.json" for one in planned.variants}
    return {name: read(file, Validation) for name, file in files.items() if file.exists()}


def _analyse(
    planned: PlannedRun, root: Path, gates: dict[str, Validation], measured: dict[str, Measurement], device: str
) -> Verdict:
    records = (
        planned.run_plan,
        *read_plans(planned, root).values(),
        *gates.values(),
        *measured.values(),
        detect(device),
    )
    analysis, _ = analyse_run(Run(WORKLOAD, planned.run_plan.run, records))
    (case,) = analysis.cases
    (row,) = [row for row in case.rows if row.variant == _variant(planned)]
    return row.verdict


def _variant(planned: PlannedRun) -> str:
    """The phase's variant; the other is the baseline."""
    (phase,) = planned.run_plan.phases
    return phase.variant


def _records(root: Path, plan: VariantPlan) -> Path:
    return Layout(root).records(plan.workload, plan.run, plan.variant)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = judge(HERE / f"{name}.py")
        ratio = f"{found.over_parent.estimate:.3g}x" if found.over_parent else "no ratio"
        print(f"{name}: {found.status} {ratio} {found.reason} {found.detail[:150]}", flush=True)
