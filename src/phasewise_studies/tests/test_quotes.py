"""What a study says of a run is in the run's report."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from phasewise_studies.links import STUDIES, list_pages

REPOSITORY = Path(__file__).parents[3]
# a README tells what one run reached, and quotes its report
REACHED = re.compile(r"What the (\w+) reached\n")
QUOTING = [
    (path, f"full-{model.lower()}")
    for path in list_pages()
    for model in re.findall(r"^## What the (\w+) reached$", path.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "run"), QUOTING, ids=str)
def test_what_a_study_quotes_is_in_its_report(page: Path, run: str) -> None:
    pages = (REPOSITORY / "reports" / page.relative_to(STUDIES).parts[0] / run).glob("*.md")
    report = " ".join(html.unescape("".join(page.read_text() for page in pages).replace("\\", "")).split())
    sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    told = [section for section in sections if REACHED.match(section) or section.startswith("The validation checklist")]
    quotes = re.findall(r'"([^"]+)"', "".join(told))
    assert len(quotes) >= 10
    assert [quote for quote in quotes if " ".join(quote.split()) not in report] == []
