"""Write plans where their content changed."""

from __future__ import annotations

from phasewise.model.layout import Layout
from phasewise.plan.make import PlannedRun
from phasewise.plan.split import split_plan
from phasewise.store import write_if_changed


def write_plans(planned: PlannedRun, layout: Layout) -> None:
    """The run's `plan.json` and `prepare.plan.json`, each variant's `plan.json` and `capture.plan.json`.

    An unchanged file keeps its age; files of variants that are no longer planned stay.
    """
    run = planned.run_plan
    folder = layout.run(run.workload, run.run)
    write_if_changed(run, folder / "plan.json")
    write_if_changed(planned.prepare, folder / "prepare.plan.json")
    for plan in planned.variants:
        records = layout.records(plan.workload, plan.run, plan.variant)
        gated, captures = split_plan(plan)
        write_if_changed(gated, records / "plan.json")
        write_if_changed(captures, records / "capture.plan.json")
