"""What the graph's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.projects import CONTRACT, SCRIPT, Project, make_project, share
from phasewise.report.charts import bundle_script
from phasewise.store import write_bytes


@pytest.fixture(scope="session")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with what `lend` gives to others; nobody changes it."""

    def make(folder: Path) -> Project:
        project = make_project(folder, {"layout": CONTRACT / "layout.py"})
        project.run("profiles/machines/cpu.json")
        write_bytes(bundle_script().encode(), folder / SCRIPT)
        return project

    return share(tmp_path_factory, "lender", make)
