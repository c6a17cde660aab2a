"""From the README of a study one click leads to the lines of each of its phases."""

from __future__ import annotations

import importlib
import re

import pytest

from phasewise_studies.links import LINK, STUDIES

NAMES = sorted(path.parent.name for path in STUDIES.glob("*/phases.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_phase_has_a_row_with_the_lines_that_do_it(name: str) -> None:
    phases = importlib.import_module(f"phasewise_studies.{name}.phases").workload.phases
    rows = [line for line in (STUDIES / name / "README.md").read_text().splitlines() if line.startswith("|")]
    linked = [row for row in rows if LINK.search(row)]
    for number, phase in enumerate(phases, start=1):
        first = re.compile(rf"\|\s*\[?`?({number:02d}-)?{re.escape(phase.name)}\b(?!-)")
        assert any(first.match(row) for row in linked), phase.name


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_is_short(name: str) -> None:
    assert len((STUDIES / name / "README.md").read_text().splitlines()) <= 80
