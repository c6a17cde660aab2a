"""The stages that time or capture as subcommands: a job of theirs has its GPU to itself, a profile for its turns."""

from __future__ import annotations

from functools import partial

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.project import (
    load_all,
    load_captures,
    load_machine,
    load_made,
    load_run,
    load_variant,
    project_layout,
    restore,
)
from phasewise.cli.stages import RUN, VARIANT, WORKLOAD
from phasewise.environment import commit
from phasewise.model.freshness import find_closure
from phasewise.model.layout import Layout
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, VariantPlan
from phasewise.records.validate import Validation
from phasewise.store import write
from phasewise.workers.lock import lock_machine, share_machine


@click.command()
@WORKLOAD
@RUN
@VARIANT
def measure(workload: str, run: str, variant: str) -> None:
    """Time a variant beside its parent and the baseline, in interleaved rounds of paired processes."""
    layout = project_layout()
    story, planned = load_run(layout, workload, run), load_variant(layout, workload, run, variant)
    from phasewise.measure import measure_variant

    restore(layout, story)
    must_fit(f"measure {variant}", layout, planned.budget.seconds * len(planned.cases) / 2)
    machine = load_machine(layout, story.device)
    with lock_machine(story.device, ranks=planned.ranks):
        record = measure_variant(
            planned,
            load_all(layout, story, "plan.json", VariantPlan),
            load_all(layout, story, "validate.json", Validation),
            _load_measured(layout, planned),
            root=layout.root,
            machine=machine.identity,
            commit=commit(layout.root),
            closure=find_closure(planned.source, layout.root),
            gpu_memory_bytes=machine.memory_bytes if machine.kind == "cuda" else 0,
        )
    write(record, layout.records(workload, run, variant) / "measure.json")
    for case in record.cases:
        click.echo(
            f"{variant} {case.case}: {len(case.rounds)} rounds, {case.stopped or (case.skipped and case.skipped.message)}"
        )


@click.command()
@WORKLOAD
@RUN
@VARIANT
def profile(workload: str, run: str, variant: str) -> None:
    """Capture where the time of a step goes; the captures go to profiles/captures."""
    layout = project_layout()
    story = load_run(layout, workload, run)
    planned = load_captures(layout, load_variant(layout, workload, run, variant))
    from phasewise.profile import profile_variant

    restore(layout, story)
    must_fit(f"profile {variant}", layout, 60 * len(planned.cases))
    gate = load_made(layout.records(workload, run, variant), "validate.json", Validation)
    record = profile_variant(
        planned,
        gate,
        machine=load_machine(layout, story.device),
        root=layout.root,
        captures=layout.captures(workload, run, variant),
        commit=commit(layout.root),
        share=partial(share_machine, story.device),
        hold=partial(lock_machine, story.device),
    )
    write(record, layout.records(workload, run, variant) / "profile.json")


@click.command()
@WORKLOAD
@RUN
@VARIANT
def export(workload: str, run: str, variant: str) -> None:
    """Write a variant as torch.export, AOTInductor, ONNX and TensorRT; reload, compare and time each."""
    layout = project_layout()
    story = load_run(layout, workload, run)
    planned = load_captures(layout, load_variant(layout, workload, run, variant))
    from phasewise.export import export_variant

    restore(layout, story)
    must_fit(f"export {variant}", layout, 120 * len(planned.cases))
    gate = load_made(layout.records(workload, run, variant), "validate.json", Validation)
    with lock_machine(story.device):
        record = export_variant(
            planned,
            gate,
            root=layout.root,
            folder=layout.exports(workload, run, variant),
            machine=load_machine(layout, story.device).identity,
            commit=commit(layout.root),
        )
    write(record, layout.records(workload, run, variant) / "export.json")
    for result in record.results:
        click.echo(f"{variant} {result.case} {result.target}: {result.status} {result.reason}")


def _load_measured(layout: Layout, planned: VariantPlan) -> dict[str, Measurement]:
    """What is on record of the ancestors of a phase or a control; the graph has made it, which it hasn't for other kinds."""
    names = planned.ancestors if planned.kind in (Kind.PHASE, Kind.CONTROL) else ()
    records = {
        name: load_made(layout.records(planned.workload, planned.run, name), "measure.json", Measurement)
        for name in names
    }
    return {name: record for name, record in records.items() if record is not None}
