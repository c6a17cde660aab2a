"""What the subcommands share: the project's folder and its configuration."""

from __future__ import annotations

from pathlib import Path

from phasewise.model.configuration import CONFIG, SCHEMA, Configuration, read_configuration
from phasewise.model.layout import Layout
from phasewise.records.errors import PlanError
from phasewise.records.plan import RunPlan
from phasewise.run import Run


def project_layout() -> Layout:
    """The project is the folder that the command is called in."""
    return Layout(Path.cwd())


# what a project without a Snakefile of its own is run by
PACKAGED = Path(__file__).parents[1] / "project"


def find_schema(root: Path) -> Path:
    """The project's own schema, else the package's."""
    own = root / SCHEMA
    return own if own.is_file() else PACKAGED / SCHEMA


def find_snakefile(root: Path) -> Path:
    """The project's own Snakefile, else the package's."""
    own = root / "Snakefile"
    return own if own.is_file() else PACKAGED / "Snakefile"


def load_configuration(layout: Layout) -> Configuration:
    """Configuration of the project in this folder; raises PlanError."""
    if not (layout.root / CONFIG).exists():
        raise PlanError(
            f"{layout.root}: no project is here, since {CONFIG} is missing; `phasewise init FOLDER` starts one, and a command is called in its "
            "folder"
        )
    return read_configuration(layout.root / CONFIG, find_schema(layout.root))


def open_run(layout: Layout, workload: str, name: str) -> Run:
    """The run on disk.

    Raises:
        PlanError: nothing of that name has been planned; says what has.
    """
    run = Run(workload, name, layout=layout)
    if not run.path(RunPlan).exists():
        folder = layout.root / "profiles" / "records"
        known = sorted(str(path.parent.relative_to(folder)) for path in folder.glob("*/*/plan.json"))
        raise PlanError(
            f"{workload}/{name}: no such run is planned; choose among {', '.join(known) or 'none'}, or call `phasewise plan`"
        )
    return run
