"""The report stage: pages from records alone, in HTML and Markdown, with no number of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from phasewise.records.errors import UserError
from phasewise.report.readme import make_table, renew_table

__all__ = ["make_table", "render_index", "render_run", "renew_table"]

# module -> distribution
CHART_PACKAGES = {"vl_convert": "vl-convert-python"}


def render_run(root: Path, workload: str, run: str) -> None:
    """Write the pages of one run below `reports/`.

    Raises:
        UserError: a package that draws charts is missing on this machine.
    """
    require_chart_packages()
    from phasewise.report.render import render_run as render

    render(root, workload, run)


def render_index(root: Path) -> None:
    """Write the index of all runs; raises as `render_run` does."""
    require_chart_packages()
    from phasewise.report.render import render_index as render

    render(root)


def require_chart_packages() -> None:
    """Refuse in one sentence where charts can't be drawn: records can be rendered on any other machine."""
    missing = [name for module, name in CHART_PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"report: {', '.join(missing)} is not installed, and charts need it; pip install 'phasewise[report]' here, "
            "or render these records on another machine"
        )
