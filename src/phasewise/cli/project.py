"""What the subcommands share: the project's folder and its configuration."""

from __future__ import annotations

from pathlib import Path

from phasewise.model.configuration import CONFIG, SCHEMA, Configuration, read_configuration
from phasewise.model.layout import Layout


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
