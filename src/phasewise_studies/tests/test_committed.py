"""The reports that ship are what today's code makes of the records that ship: `phasewise report WORKLOAD RUN` after a change of either."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.model.layout import Layout
from phasewise.report import make_table
from phasewise.report.content import make_pages
from phasewise.report.markdown import render_markdown
from phasewise.run import Run
from phasewise_studies.testing import REPOSITORY, RUNS


@pytest.mark.parametrize(("workload", "run"), RUNS)
def test_a_report_that_ships_says_what_its_records_say(workload: str, run: str) -> None:
    folder = REPOSITORY / "reports" / workload / run
    pages = make_pages(Run(workload, run, layout=Layout(REPOSITORY), forgiving=True))
    made = {f"{page.name}.md": render_markdown(page) for page in pages}
    assert {path.name for path in folder.glob("*.md")} == made.keys()
    assert [name for name, text in made.items() if (folder / name).read_text() != text] == []


def test_the_result_table_is_what_the_summaries_say(repository: Path) -> None:
    between = (repository / "README.md").read_text().split("<!-- results -->")[1].split("<!-- /results -->")[0]
    assert between.strip() == make_table(repository).strip(), "run `make tables`"
