"""The stages that time or capture as subcommands: a job of theirs has its GPU to itself, a profile for its turns."""

from __future__ import annotations

from functools import partial

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.project import open_variant, project_layout, restore
from phasewise.cli.stages import RUN, VARIANT, WORKLOAD
from phasewise.environment import commit
from phasewise.model.freshness import find_closure
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, VariantPlan
from phasewise.records.validate import Validation
from phasewise.run import Run, open_run
from phasewise.store import write
from phasewise.workers.lock import lock_machine, share_machine


@click.command()
@WORKLOAD
@RUN
@VARIANT
def measure(workload: str, run: str, variant: str) -> None:
    """Time a variant beside its parent and the baseline, in interleaved rounds of paired processes."""
    layout = project_layout()
    records = open_run(layout, workload, run)
    planned = records.need(VariantPlan, open_variant(records, variant).name)
    from phasewise.measure import measure_variant

    restore(records, layout)
    must_fit(f"measure {variant}", layout, planned.budget.seconds * len(planned.cases) / 2)
    machine = records.machine
    with lock_machine(planned.device, ranks=planned.ranks):
        record = measure_variant(
            planned,
            records.find_all(VariantPlan),
            records.find_all(Validation),
            _find_measured(records, planned),
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
    records = open_run(layout, workload, run)
    planned = open_variant(records, variant).full_plan
    from phasewise.profile import profile_variant

    restore(records, layout)
    must_fit(f"profile {variant}", layout, 60 * len(planned.cases))
    record = profile_variant(
        planned,
        records[variant].validation,
        machine=records.machine,
        root=layout.root,
        captures=layout.captures(workload, run, variant),
        commit=commit(layout.root),
        share=partial(share_machine, planned.device),
        hold=partial(lock_machine, planned.device),
    )
    write(record, layout.records(workload, run, variant) / "profile.json")


@click.command()
@WORKLOAD
@RUN
@VARIANT
def export(workload: str, run: str, variant: str) -> None:
    """Write a variant as torch.export, AOTInductor, ONNX and TensorRT; reload, compare and time each."""
    layout = project_layout()
    records = open_run(layout, workload, run)
    planned = open_variant(records, variant).full_plan
    from phasewise.export import export_variant

    restore(records, layout)
    must_fit(f"export {variant}", layout, 120 * len(planned.cases))
    with lock_machine(planned.device):
        record = export_variant(
            planned,
            records[variant].validation,
            root=layout.root,
            folder=layout.exports(workload, run, variant),
            machine=records.machine.identity,
            commit=commit(layout.root),
        )
    write(record, layout.records(workload, run, variant) / "export.json")
    for result in record.results:
        click.echo(f"{variant} {result.case} {result.target}: {result.status} {result.reason}")


def _find_measured(records: Run, planned: VariantPlan) -> dict[str, Measurement]:
    """What is on record of the ancestors of a phase or a control; the graph has made it, which it hasn't for other kinds."""
    return records.find_all(Measurement, planned.ancestors if planned.kind in (Kind.PHASE, Kind.CONTROL) else ())
