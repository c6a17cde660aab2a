"""The stages as subcommands: what the rules of the graph call, and a person can call too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.project import load_configuration, open_variant, project_layout, restore
from phasewise.environment import commit, detect
from phasewise.model.freshness import find_closure
from phasewise.records.analyse import Analysis, Ledger, VariantAnalysis
from phasewise.records.errors import UserError
from phasewise.records.export import Export
from phasewise.records.plan import PreparePlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.validate import Validation
from phasewise.run import open_run
from phasewise.store import write, write_bytes, write_if_changed
from phasewise.workers.lock import lock_machine

WORKLOAD = click.argument("workload")
RUN = click.argument("run")
VARIANT = click.argument("variant")


@click.command()
@click.option("--quiet", is_flag=True, help="Write the plans and list nothing.")
def plan(quiet: bool) -> None:
    """Write the plan of every workload that workflow/config.yaml names, and list its variants."""
    from phasewise.plan import find_machine, plan_runs, write_plans

    layout = project_layout()
    configuration = load_configuration(layout)
    machine = find_machine(layout, configuration.device)
    plans = plan_runs(configuration, layout.root, machine)
    write_if_changed(machine, layout.identity(machine.device))
    for planned in plans:
        write_plans(planned, layout)
        if quiet:
            continue
        click.echo(f"{planned.run_plan.workload}/{planned.run_plan.run}: {planned.run_plan.summary}")
        for variant in planned.variants:
            cases = ", ".join(case.case for case in variant.cases)
            why = f"  ({variant.skip or variant.untimed})" if variant.skip or variant.untimed else ""
            click.echo(f"  {variant.variant:<28} on {variant.parent or '-':<28} {cases}{why}")


@click.command()
@click.argument("workload", required=False)
@click.argument("run", required=False)
@click.option("--machine", "device", help="Measure the peaks of this machine instead, under this device name.")
def prepare(workload: str | None, run: str | None, device: str | None) -> None:
    """Make a workload's artifacts, or measure the machine's peaks (--machine)."""
    layout = project_layout()
    if device is not None:
        from phasewise.prepare.machine import prepare_machine

        must_fit("machine", layout, 60)
        machine = detect("cpu" if device == "cpu" else "auto")
        if machine.device != device:
            raise UserError(f"--machine {device}: this machine is {machine.device}; call it on the one that is meant")
        with lock_machine(device):
            write(prepare_machine(machine), layout.machine(device))
        return
    if workload is None or run is None:
        raise click.UsageError("name a workload and a run, or give --machine")
    from phasewise.prepare.apart import prepare_in_process

    records = open_run(layout, workload, run)
    must_fit(f"prepare {workload}", layout, 60)
    write(prepare_in_process(records.need(PreparePlan), layout), records.path(Prepared))


@click.command()
@WORKLOAD
@RUN
@VARIANT
def validate(workload: str, run: str, variant: str) -> None:
    """Hold a variant against the float64 reference: the gate before any timing."""
    layout = project_layout()
    records = open_run(layout, workload, run)
    planned = records.need(VariantPlan, open_variant(records, variant).name)
    from phasewise.validate import validate_variant
    from phasewise.validate.events import write_curves

    restore(records, layout)
    must_fit(f"validate {variant}", layout, 25 * len(planned.cases))
    record = validate_variant(
        planned,
        records.find_all(VariantPlan),
        records.find_all(Validation),
        root=layout.root,
        machine=records.machine.identity,
        commit=commit(layout.root),
        closure=find_closure(planned.source, layout.root),
        hold=partial(lock_machine, planned.device, ranks=planned.ranks),
    )
    write(record, layout.records(workload, run, variant) / "validate.json")
    write_curves(record, layout.captures(workload, run, variant))
    for case in record.cases:
        click.echo(f"{variant} {case.case}: {case.outcome} {case.message}")


@click.command()
@WORKLOAD
@RUN
@click.argument("variant", required=False)
def analyse(workload: str, run: str, variant: str | None) -> None:
    """Find what holds a variant back and predict its children's gain; without a variant, judge the whole run."""
    from phasewise.analyse import analyse_run, analyse_variant, summarise

    layout = project_layout()
    records = open_run(layout, workload, run)
    records.need(Prepared)
    if variant is not None:
        found = analyse_variant(records, open_variant(records, variant).name)
        write(found, records.path(VariantAnalysis, variant))
        return
    analysis, ledger = analyse_run(records)
    write_if_changed(analysis, records.path(Analysis))
    write_if_changed(ledger, records.path(Ledger))
    summary = summarise(analysis, records.plan, records.machine, records.find_all(Export))
    write_bytes(summary, layout.run(workload, run) / "summary.json")


@click.command()
@click.argument("workload", required=False)
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Render the pages of every run on record, then the index.")
@click.option(
    "--readme", type=click.Path(path_type=Path), help="Also renew the result table between the markers of this file."
)
def report(workload: str | None, run: str | None, everything: bool, readme: Path | None) -> None:
    """Render one run's pages; without a run, the index of all runs."""
    from phasewise.report import render_index, render_run, renew_table

    layout = project_layout()
    for summary in sorted(layout.root.glob("profiles/records/*/*/summary.json")) if everything else ():
        render_run(layout.root, summary.parent.parent.name, summary.parent.name)
    if workload is not None and run is not None:
        open_run(layout, workload, run)
        render_run(layout.root, workload, run)
    elif workload is not None:
        raise click.UsageError("name the run too")
    else:
        render_index(layout.root)
        click.echo(f"report: {(layout.root / 'reports' / 'index.html').relative_to(Path.cwd())}")
    if readme is not None:
        renew_table(layout.root, readme)
