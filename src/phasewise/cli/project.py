"""What the subcommands share: the project's folder and its records."""

from __future__ import annotations

from pathlib import Path

from phasewise.model.configuration import CONFIG, SCHEMA, Configuration, read_configuration
from phasewise.model.layout import Layout
from phasewise.records.errors import PlanError
from phasewise.records.plan import PreparePlan
from phasewise.records.prepare import Prepared
from phasewise.run import Run, VariantRecords


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


def open_variant(run: Run, variant: str) -> VariantRecords:
    """What is on record of a variant; raises PlanError where none of that name is planned."""
    if variant not in run.rows:
        known = ", ".join(run.rows)
        raise PlanError(f"{run.workload}/{run.name}: variant {variant!r} is not planned; choose among {known}")
    return run[variant]


def restore(run: Run, layout: Layout) -> None:
    """What was prepared lies beside the project's records, not among them, and may have stayed elsewhere."""
    from phasewise.prepare.restore import restore_artifacts

    restore_artifacts(run.need(PreparePlan), run.need(Prepared), layout)
