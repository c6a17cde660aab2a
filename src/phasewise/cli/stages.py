"""The stages as subcommands: what the rules of the graph call, and a person can call too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.project import load_configuration, open_run, project_layout
from phasewise.cli.say import say
from phasewise.environment import detect
from phasewise.jobs import Job, Stage
from phasewise.records.analyse import Analysis
from phasewise.records.base import Record
from phasewise.records.errors import PlanError, UserError
from phasewise.records.export import Export
from phasewise.records.ledger import Ledger
from phasewise.records.measure import ControlMeasurement, HeadlineMeasurement, Measurement
from phasewise.records.plan import PreparePlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.stages import ANALYSE, PREPARE
from phasewise.store import write, write_bytes, write_if_changed
from phasewise.workers.lock import lock_machine


class StageCommand(click.Command):
    """A stage of a project; a script in place of the workload is told where it is taken."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].endswith(".py"):
            raise UserError(
                f"{self.name}: {args[0]} is a script, and a workload of the project here is needed; `phasewise look -- python {args[0]}` looks "
                "at any script, and `phasewise init --from FILE.py:CLASS` makes a workload"
            )
        return super().parse_args(ctx, args)


def make_command(stage: Stage) -> click.Command:
    """The subcommand of a stage that has a record for each variant, or each case."""
    params: list[click.Parameter] = [click.Argument([name]) for name in ("workload", "run", "subject")]
    params[-1].metavar = stage.of.upper()
    return StageCommand(stage.name, params=params, callback=partial(run_stage, stage), help=stage.about)


def run_stage(stage: Stage, workload: str, run: str, subject: str = "") -> None:
    """Make one record of the project in this folder: read what the stage needs, call it, write."""
    layout = project_layout()
    records = open_run(layout, workload, run)
    known = {"run": [""], "case": records.plan.cases, "variant": records.rows}[stage.of]
    if subject not in known:
        raise PlanError(f"{workload}/{run}: {stage.of} {subject!r} is not planned; choose among {', '.join(known)}")
    if stage.lock != "none":
        from phasewise.prepare.restore import restore_artifacts

        # what was prepared lies beside the project's records, not among them, and may have stayed elsewhere
        restore_artifacts(records.need(PreparePlan), records.need(Prepared), layout)
    cases = len(records.need(VariantPlan, subject).cases) if stage.of == "variant" else 1
    seconds = stage.expect_seconds(records, subject, cases)
    if seconds is not None:
        must_fit(f"{stage.name} {subject or workload}", seconds)
    job = Job(stage=stage, run=records, subject=subject, layout=layout)
    alone = stage.lock == "alone"
    with lock_machine(records.plan.device, ranks=job.ranks) if alone else contextlib.nullcontext():
        record = stage.make(job)
    write(record, records.path(stage.record, subject))
    for line in describe_record(record):
        say(f"{subject} {line}")
    for text in list_tracebacks(record):
        say(text, err=True)


def list_tracebacks(record: Record) -> list[str]:
    """Of what the user's code raised, each once."""
    match record:
        case Validation():
            failures = [one.failure for one in record.cases]
        case Measurement():
            failures = [arm.failure for one in record.cases for arm in one.arms]
        case Profile():
            failures = [one.failure for one in record.cases]
        case _:
            failures = []
    return list(dict.fromkeys(one.traceback for one in failures if one is not None and one.traceback))


def describe_record(record: Record) -> Iterable[str]:
    """What came of each case, in a line."""
    match record:
        case Validation():
            yield from (f"{one.case}: {one.outcome} {one.message}" for one in record.cases)
        case Measurement():
            for one in record.cases:
                yield f"{one.case}: {len(one.rounds)} rounds, {one.stopped or (one.skipped and one.skipped.message)}"
        case HeadlineMeasurement() | ControlMeasurement():
            one = record.measured
            yield f"{len(one.rounds)} rounds, {one.stopped or (one.skipped and one.skipped.message)}"
        case Export():
            yield from (f"{one.case} {one.format}: {one.status} {one.reason}" for one in record.results)


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
        say(f"{planned.run_plan.workload}/{planned.run_plan.run}: {planned.run_plan.summary}")
        for variant in planned.variants:
            cases = ", ".join(case.case for case in variant.cases)
            why = f"  ({variant.skip or variant.untimed})" if variant.skip or variant.untimed else ""
            say(f"  {variant.variant:<28} on {variant.parent or '-':<28} {cases}{why}")


@click.command()
@click.argument("workload", required=False)
@click.argument("run", required=False)
@click.option("--machine", "device", help="Measure the peaks of this machine instead, under this device name.")
def prepare(workload: str | None, run: str | None, device: str | None) -> None:
    """Make a workload's artifacts, or measure the machine's peaks (--machine)."""
    if device is not None:
        from phasewise.prepare.machine import prepare_machine

        must_fit("machine", 60)
        machine = detect("cpu" if device == "cpu" else "auto")
        if machine.device != device:
            raise UserError(f"--machine {device}: this machine is {machine.device}; call it on the one that is meant")
        with lock_machine(device):
            write(prepare_machine(machine), project_layout().machine(device))
        return
    if workload is None or run is None:
        raise click.UsageError("name a workload and a run, or give --machine")
    run_stage(PREPARE, workload, run)


@click.command()
@click.argument("workload")
@click.argument("run")
@click.argument("variant", required=False)
def analyse(workload: str, run: str, variant: str | None) -> None:
    """Find what holds a variant back; without a variant, judge the whole run."""
    if variant is not None:
        run_stage(ANALYSE, workload, run, variant)
        return
    judge_run(workload, run)


def judge_run(workload: str, run: str) -> None:
    """Judge what is on record of the run in this folder; raises RecordError where nothing was prepared."""
    from phasewise.analyse import analyse_run, summarise

    records = open_run(project_layout(), workload, run)
    records.need(Prepared)
    analysis, ledger = analyse_run(records)
    write_if_changed(analysis, records.path(Analysis))
    write_if_changed(ledger, records.path(Ledger))
    summary = summarise(analysis, records.plan, records.machine, records.find_all(Export))
    write_bytes(summary, records.path(Analysis).with_name("summary.json"))


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
        say(f"report: {(layout.root / 'reports' / 'index.html').relative_to(Path.cwd())}")
    if readme is not None:
        renew_table(layout.root, readme)
