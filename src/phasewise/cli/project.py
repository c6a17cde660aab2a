"""What the subcommands share: the project's folder and its records."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import click
import msgspec

from phasewise.model.configuration import CONFIG, SCHEMA, Configuration, read_configuration
from phasewise.model.layout import Layout
from phasewise.records.base import Record
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import CapturePlan, PreparePlan, RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.validate import Validation
from phasewise.store import digest_of, read, read_if_there

R = TypeVar("R", bound=Record)


def project_layout() -> Layout:
    """The project is the folder that the command is called in."""
    return Layout(Path.cwd())


def find_schema(root: Path) -> Path:
    """The project's own schema, else the one beside the package's sources."""
    own = root / SCHEMA
    return own if own.is_file() else Path(__file__).parents[3] / SCHEMA


def load_configuration(layout: Layout) -> Configuration:
    """Configuration of the project; raises PlanError."""
    return read_configuration(layout.root / CONFIG, find_schema(layout.root))


def load_run(layout: Layout, workload: str, run: str) -> RunPlan:
    """The run's plan.

    Raises:
        PlanError: nothing of that name has been planned; says what has.
    """
    path = layout.run(workload, run) / "plan.json"
    if not path.is_file():
        known = sorted(
            str(other.parent.relative_to(layout.root / "profiles" / "records")) for other in _run_plans(layout)
        )
        raise PlanError(
            f"{workload}/{run}: no such run is planned; choose among {', '.join(known) or 'none'}, or call `phasewise plan`"
        )
    return read(path, RunPlan)


def load_variant(layout: Layout, workload: str, run: str, variant: str) -> VariantPlan:
    """The variant's plan; raises PlanError as `load_run` does."""
    story = load_run(layout, workload, run)
    known = [row.variant for row in story.variants]
    if variant not in known:
        raise PlanError(f"{workload}/{run}: variant {variant!r} is not planned; choose among {', '.join(known)}")
    return read(layout.records(workload, run, variant) / "plan.json", VariantPlan)


def load_captures(layout: Layout, planned: VariantPlan) -> VariantPlan:
    """The plan with what is to be captured and exported of it; raises RecordError."""
    captures = read(layout.records(planned.workload, planned.run, planned.variant) / "capture.plan.json", CapturePlan)
    return msgspec.structs.replace(
        planned,
        profilers=captures.profilers,
        exporters=captures.exporters,
        exported=captures.exported,
        nsight=captures.nsight,
    )


def load_machine(layout: Layout, device: str) -> Machine:
    """The machine's record, with its peaks; raises RecordError if prepare has not run."""
    return read(layout.machine(device), Machine)


def load_all(layout: Layout, story: RunPlan, file: str, kind: type[R]) -> dict[str, R]:
    """Records of one kind by variant; those that `load_made` does not find are left out."""
    found = {}
    for row in story.variants:
        record = load_made(layout.records(story.workload, story.run, row.variant), file, kind)
        if record is not None:
            found[row.variant] = record
    return found


def load_made(folder: Path, file: str, kind: type[R]) -> R | None:
    """A variant's record; None where there is none, or where a gate or a measurement is not of the plan beside it.

    The graph would have made that again, so somebody put it there; a sentence says so.
    """
    record = read_if_there(folder / file, kind)
    if isinstance(record, Validation | Measurement) and record.plan != digest_of(folder / "plan.json"):
        click.echo(
            f"{folder / file}: made from another plan, so it is left out; delete it and run the graph again", err=True
        )
        return None
    return record


def restore(layout: Layout, story: RunPlan) -> None:
    """What was prepared lies beside the project's records, not among them, and may have stayed elsewhere."""
    from phasewise.prepare.restore import restore_artifacts

    folder = layout.run(story.workload, story.run)
    prepared = read(folder / "prepare.json", Prepared)
    restore_artifacts(read(folder / "prepare.plan.json", PreparePlan), prepared, layout)


def _run_plans(layout: Layout) -> list[Path]:
    return list((layout.root / "profiles" / "records").glob("*/*/plan.json"))
