"""The stages that time or capture as subcommands: in a lane of a GPU where they fit, else on the whole."""

from __future__ import annotations

import click

from phasewise.cli.budget import must_fit
from phasewise.cli.hold import hold_machine
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
from phasewise.environment import commit, read_lanes
from phasewise.model.layout import Layout
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, VariantPlan
from phasewise.records.profile import Profile
from phasewise.records.validate import Outcome, Validation
from phasewise.run.lane import Crowded
from phasewise.run.together import fit_together, was_too_tight
from phasewise.store import write


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

    restore(layout, story)
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

    restore(layout, story)
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


def _load_measured(layout: Layout, planned: VariantPlan) -> dict[str, Measurement]:
    """What is on record of the ancestors of a phase or a control; the graph has made it, which it hasn't for other kinds."""
    names = planned.ancestors if planned.kind in (Kind.PHASE, Kind.CONTROL) else ()
    records = {
        name: load_made(layout.records(planned.workload, planned.run, name), "measure.json", Measurement)
        for name in names
    }
    return {name: record for name, record in records.items() if record is not None}


def _fits_lane(gate: Validation | None, machine: Machine) -> bool:
    """Whether all cases fit into a lane's part of the memory at once, each twice: as an eager twin, or as its own export."""
    lanes = read_lanes()
    if gate is None or lanes == 1:
        return False
    open_ = [case for case in gate.cases if case.outcome not in (Outcome.FAIL, Outcome.SKIPPED)]
    return fit_together([case.peak_memory_bytes for case in open_] * 2, machine.memory_bytes / lanes)
