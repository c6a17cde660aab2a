"""Every link of a page leads somewhere, and a link to a line leads to the definition that it names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from phasewise_studies.links import find_definition, list_pages, renew

REPOSITORY = Path(__file__).parents[3]
PAGES = [
    REPOSITORY / name
    for name in subprocess.run(
        ["git", "ls-files", "--", "README.md", "docs", "src/**/*.md"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if name.endswith(".md")
]


def make_anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_resolves(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        there = path.is_file() or path.is_dir()
        if there and anchor and not re.fullmatch(r"L\d+(-L\d+)?", anchor):
            text = path.read_text()
            anchors = {make_anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
            there = anchor in anchors or f'id="{anchor}"' in text
        if not there:
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_link_to_a_line_leads_to_what_it_names(page: Path) -> None:
    assert renew(page.read_text(), page.parent) == page.read_text(), "run `make tables`"


@pytest.mark.parametrize(
    ("name", "source", "line"),
    [
        ("a.py", "import x\n\ndef step(a):\n    pass", 3),
        ("a.py", "class step:\n", 1),
        ("a.py", "\nstep = 3\n", 2),
        ("a.py", "step: int = 3\n", 1),
        ("a.py", "def other():\n    return step(1)\n\n\ndef step(x):\n", 5),
        ("a.py", "class A:\n    def step(self):\n", 2),
        ("a.py", "x = step()\n", None),
        ("a.cu", "a\n__global__ void step(float* x)\n", 2),
    ],
)
def test_the_line_is_that_of_the_definition(tmp_path: Path, name: str, source: str, line: int | None) -> None:
    (tmp_path / name).write_text(source)
    assert find_definition(tmp_path / name, "step") == line
