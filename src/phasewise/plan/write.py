"""Write plans where their content changed, and remove those of variants that are no longer planned."""

from __future__ import annotations

from phasewise.model.layout import Layout
from phasewise.plan.make import PlannedRun
from phasewise.store import write_if_changed


def write_plans(planned: PlannedRun, layout: Layout) -> None:
    """`plan.json` of the run and of each variant, and `prepare.plan.json`; an unchanged file keeps its age."""
    run = planned.run_plan
    folder = layout.run(run.workload, run.run)
    write_if_changed(run, folder / "plan.json")
    write_if_changed(planned.prepare, folder / "prepare.plan.json")
    for plan in planned.variants:
        write_if_changed(plan, layout.records(plan.workload, plan.run, plan.variant) / "plan.json")
