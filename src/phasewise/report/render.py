"""From records to files: pages and tables of one run, and the index of all runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phasewise import store
from phasewise.model.layout import Layout
from phasewise.report.blocks import Page, figures_of
from phasewise.report.charts import bundle_script, draw_svg, script_stamp
from phasewise.report.content import make_pages
from phasewise.report.html import render_html
from phasewise.report.markdown import render_markdown
from phasewise.report.numbers import write_numbers
from phasewise.report.overview import make_overview
from phasewise.report.summary import read_summary
from phasewise.report.tables import make_tables
from phasewise.run import Run


def render_run(root: Path, workload: str, run: str) -> None:
    """Write reports/<workload>/<run>/: pages in two formats, figures, tables, and the summary that analyse left.

    Missing or unreadable records are shown as holes. Files whose content did not change keep their age.
    """
    folder = Layout(root).report(workload, run)
    records = Run(workload, run, layout=Layout(root), forgiving=True)
    pages = make_pages(records)
    svgs = _draw(pages, folder / "figures")
    for page in pages:
        _write(render_html(page, svgs), folder / f"{page.name}.html")
        _write(render_markdown(page), folder / f"{page.name}.md")
    for name, svg in svgs.items():
        _write(svg, folder / "figures" / f"{name}.svg")
    tables = make_tables(records)
    for name, content in tables.items():
        _write(content, folder / "tables" / name)
    _sweep(folder, keep={page.name for page in pages}, figures=set(svgs), tables=set(tables))
    summary = Layout(root).run(workload, run) / "summary.json"
    if summary.exists():
        read_summary(summary)
        _write(summary.read_bytes(), folder / "summary.json")
    _share_script(root)


def render_index(root: Path) -> None:
    """Write reports/index.html and index.md from the records of all runs, and metrics.json and phases.json from their summaries."""
    page = make_overview(root)
    figures = root / "reports" / "figures"
    svgs = _draw((page,), figures)
    for name, svg in svgs.items():
        _write(svg, figures / f"{name}.svg")
    _write(render_html(page, svgs), root / "reports" / "index.html")
    _write(render_markdown(page), root / "reports" / "index.md")
    write_numbers(root)


def _draw(pages: Iterable[Page], folder: Path) -> dict[str, str]:
    """Every figure once, or as it stands in `folder`; two figures of one name would overwrite each other."""
    svgs: dict[str, str] = {}
    for page in pages:
        for section in page.sections:
            for figure in figures_of(section.blocks):
                if figure.name not in svgs:
                    path = folder / f"{figure.name}.svg"
                    drawn = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
                    svgs[figure.name] = draw_svg(figure.spec, drawn)
    return svgs


def _share_script(root: Path) -> None:
    """The script that all indexes share; bundled again only when its versions changed."""
    path = root / "reports" / "vega.js"
    if path.is_file():
        with path.open("rb") as file:
            if file.readline() == script_stamp().encode():
                return
    store.write_bytes(bundle_script().encode(), path)


def _sweep(folder: Path, keep: set[str], figures: set[str], tables: set[str]) -> None:
    """Remove pages, figures and tables of an earlier plan: a part that is gone must not be read any more."""
    stale = [path for ending in ("html", "md") for path in folder.glob(f"*.{ending}") if path.stem not in keep]
    stale += [path for path in (folder / "figures").glob("*.svg") if path.stem not in figures]
    stale += [path for path in (folder / "tables").glob("*") if path.name not in tables]
    for path in sorted(path for path in stale if path.is_file()):
        path.unlink()


def _write(text: str | bytes, path: Path) -> None:
    content = text.encode() if isinstance(text, str) else text
    if not path.is_file() or path.read_bytes() != content:
        store.write_bytes(content, path)
