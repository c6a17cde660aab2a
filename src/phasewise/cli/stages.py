"""The stages as subcommands: what the rules of the graph call, and a person can call too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.hold import hold_machine
from phasewise.cli.project import (
    load_all,
    load_captures,
    load_configuration,
    load_machine,
    load_made,
    load_run,
    load_variant,
    project_layout,
)
from phasewise.environment import commit, detect, read_lanes
from phasewise.model.layout import Layout
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.errors import PlanError, UserError
from phasewise.records.export import Export
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, PreparePlan, RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Outcome, Validation
from phasewise.run.lane import Crowded
from phasewise.run.together import fit_together, was_too_tight
from phasewise.store import read, write, write_bytes, write_if_changed

WORKLOAD = click.argument("workload")
RUN = click.argument("run")
VARIANT = click.argument("variant")


@click.command()
@click.option("--quiet", is_flag=True, help="Write the plans and list nothing.")
@click.option(
    "--expect", metavar="RUN", help="Refuse, before anything is written, if this machine would make another run."
)
def plan(quiet: bool, expect: str | None) -> None:
    """Write the plan of every workload that workflow/config.yaml names, and list its variants."""
    from phasewise.plan import find_machine, plan_runs, write_plans

    layout = project_layout()
    configuration = load_configuration(layout)
    machine = find_machine(layout, configuration.device)
    plans = plan_runs(configuration, layout.root, machine)
    runs = sorted({planned.run_plan.run for planned in plans})
    if expect is not None and runs != [expect]:
        raise PlanError(
            f"run {expect!r} is expected, and this machine makes {', '.join(runs)}; change workflow/record.yaml"
        )
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
        with hold_machine(device):
            write(prepare_machine(machine), layout.machine(device))
        return
    if workload is None or run is None:
        raise click.UsageError("name a workload and a run, or give --machine")
    from phasewise.prepare.apart import prepare_in_process

    folder = layout.run(workload, run)
    story = load_run(layout, workload, run)
    must_fit(f"prepare {workload}", layout, 60)
    with hold_machine(story.device, shared=True):
        prepared = prepare_in_process(read(folder / "prepare.plan.json", PreparePlan), layout)
    write(prepared, folder / "prepare.json")


@click.command()
@WORKLOAD
@RUN
@VARIANT
def validate(workload: str, run: str, variant: str) -> None:
    """Hold a variant against the float64 reference: the gate before any timing."""
    layout = project_layout()
    story, planned = load_run(layout, workload, run), load_variant(layout, workload, run, variant)
    from phasewise.validate import validate_variant

    _restore(layout, story)
    must_fit(f"validate {variant}", layout, 25 * len(planned.cases))
    record = validate_variant(
        planned,
        load_all(layout, story, "plan.json", VariantPlan),
        load_all(layout, story, "validate.json", Validation),
        root=layout.root,
        machine=load_machine(layout, story.device).identity,
        commit=commit(layout.root),
        hold=partial(hold_machine, story.device, ranks=planned.ranks),
    )
    write(record, layout.records(workload, run, variant) / "validate.json")
    for case in record.cases:
        click.echo(f"{variant} {case.case}: {case.outcome} {case.message}")


@click.command()
@WORKLOAD
@RUN
@VARIANT
def measure(workload: str, run: str, variant: str) -> None:
    """Time a variant beside its parent and the baseline, in interleaved rounds of paired processes."""
    layout = project_layout()
    story, planned = load_run(layout, workload, run), load_variant(layout, workload, run, variant)
    from phasewise.measure import measure_variant
    from phasewise.measure.arms import fit_lane

    _restore(layout, story)
    must_fit(f"measure {variant}", layout, planned.budget.seconds * len(planned.cases) / 2)
    machine = load_machine(layout, story.device)
    known = (
        load_all(layout, story, "plan.json", VariantPlan),
        load_all(layout, story, "validate.json", Validation),
        _load_measured(layout, planned),
    )

    def measure_held(*, in_lane: bool) -> Measurement:
        with hold_machine(story.device, in_lane=in_lane, ranks=planned.ranks) as lane:
            return measure_variant(
                planned,
                *known,
                root=layout.root,
                machine=machine.identity,
                commit=commit(layout.root),
                gpu_memory_bytes=machine.memory_bytes if machine.kind == "cuda" else 0,
                lane=lane,
            )

    try:
        record = measure_held(in_lane=fit_lane(planned, *known, machine.memory_bytes / read_lanes()))
    except Crowded:
        record = measure_held(in_lane=False)
    write(record, layout.records(workload, run, variant) / "measure.json")
    for case in record.cases:
        click.echo(
            f"{variant} {case.case}: {len(case.rounds)} rounds, {case.stopped or (case.skipped and case.skipped.message)}"
        )


def _fits_lane(gate: Validation | None, machine: Machine) -> bool:
    """Whether all cases fit into a lane's part of the memory at once, each twice: as an eager twin, or as its own export."""
    lanes = read_lanes()
    if gate is None or lanes == 1:
        return False
    open_ = [case for case in gate.cases if case.outcome not in (Outcome.FAIL, Outcome.SKIPPED)]
    return fit_together([case.peak_memory_bytes for case in open_] * 2, machine.memory_bytes / lanes)


def _restore(layout: Layout, story: RunPlan) -> None:
    """What was prepared lies beside the project's records, not among them, and may have stayed elsewhere."""
    from phasewise.prepare.restore import restore_artifacts

    folder = layout.run(story.workload, story.run)
    prepared = read(folder / "prepare.json", Prepared)
    restore_artifacts(read(folder / "prepare.plan.json", PreparePlan), prepared, layout)


def _load_measured(layout: Layout, planned: VariantPlan) -> dict[str, Measurement]:
    """What is on record of the ancestors of a phase or a control; the graph has made it, which it hasn't for other kinds."""
    names = planned.ancestors if planned.kind in (Kind.PHASE, Kind.CONTROL) else ()
    records = {
        name: load_made(layout.records(planned.workload, planned.run, name), "measure.json", Measurement)
        for name in names
    }
    return {name: record for name, record in records.items() if record is not None}


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

    _restore(layout, story)
    must_fit(f"profile {variant}", layout, 60 * len(planned.cases))
    gate = load_made(layout.records(workload, run, variant), "validate.json", Validation)
    machine = load_machine(layout, story.device)

    def profile_held(*, in_lane: bool) -> Profile:
        with hold_machine(story.device, in_lane=in_lane) as lane:
            return profile_variant(
                planned,
                gate,
                machine=machine,
                root=layout.root,
                captures=layout.captures(workload, run, variant),
                commit=commit(layout.root),
                lane=lane,
            )

    in_lane = _fits_lane(gate, machine)
    record = profile_held(in_lane=in_lane)
    if in_lane and any(map(was_too_tight, planned.cases, (found.failure for found in record.cases))):
        record = profile_held(in_lane=False)
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

    _restore(layout, story)
    must_fit(f"export {variant}", layout, 120 * len(planned.cases))
    gate = load_made(layout.records(workload, run, variant), "validate.json", Validation)
    machine = load_machine(layout, story.device)
    with hold_machine(story.device, in_lane=_fits_lane(gate, machine)) as lane:
        record = export_variant(
            planned,
            gate,
            root=layout.root,
            folder=layout.exports(workload, run, variant),
            machine=machine.identity,
            commit=commit(layout.root),
            lane=lane,
        )
    write(record, layout.records(workload, run, variant) / "export.json")
    for result in record.results:
        click.echo(f"{variant} {result.case} {result.target}: {result.status} {result.reason}")


@click.command()
@WORKLOAD
@RUN
@click.argument("variant", required=False)
def analyse(workload: str, run: str, variant: str | None) -> None:
    """Find what holds a variant back and predict its children's gain; without a variant, judge the whole run."""
    from phasewise.analyse import analyse_run, analyse_variant, summarise

    layout = project_layout()
    story = load_run(layout, workload, run)
    folder = layout.run(workload, run)
    machine, prepared = load_machine(layout, story.device), read(folder / "prepare.json", Prepared)
    if variant is not None:
        planned, records = load_variant(layout, workload, run, variant), layout.records(workload, run, variant)
        found = analyse_variant(
            planned,
            story,
            machine,
            prepared,
            measurement=load_made(records, "measure.json", Measurement),
            profile=load_made(records, "profile.json", Profile),
            validation=load_made(records, "validate.json", Validation),
        )
        write(found, records / "analyse.json")
        return
    exports = load_all(layout, story, "export.json", Export)
    analysis, ledger = analyse_run(
        story,
        load_all(layout, story, "plan.json", VariantPlan),
        machine,
        prepared,
        validations=load_all(layout, story, "validate.json", Validation),
        measurements=load_all(layout, story, "measure.json", Measurement),
        profiles=load_all(layout, story, "profile.json", Profile),
        exports=exports,
        analyses=load_all(layout, story, "analyse.json", VariantAnalysis),
    )
    write_if_changed(analysis, folder / "analyse.json")
    write_if_changed(ledger, folder / "ledger.json")
    write_bytes(summarise(analysis, story, machine, exports), folder / "summary.json")


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
        load_run(layout, workload, run)
        render_run(layout.root, workload, run)
    elif workload is not None:
        raise click.UsageError("name the run too")
    else:
        render_index(layout.root)
        click.echo(f"report: {(layout.root / 'reports' / 'index.html').relative_to(Path.cwd())}")
    if readme is not None:
        renew_table(layout.root, readme)
