"""The findings as a document: `docs/findings.md` is what `render_catalogue` returns."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from phasewise.analyse.evidence import Find
from phasewise.analyse.findings import CATALOGUE

HEADINGS = ("What it sees", "Why it costs", "Threshold and its source", "Advice")
INTRODUCTION = """# Findings

What can hold a step back, how it is recognised, and what to do. Made from the docstrings of `phasewise.analyse.findings`;
the order is the one in which findings may claim seconds of the step, so that no second is claimed twice. A finding that lacks
what it needs abstains and says why.
"""


def render_catalogue() -> str:
    """The catalogue as Markdown."""
    return "\n".join([INTRODUCTION, *(_render(name, find) for name, find in CATALOGUE)])


def _render(name: str, find: Find) -> str:
    text = inspect.getdoc(find) or ""
    first, _, rest = text.partition("\n\n")
    body = " ".join(rest.split())
    for heading in HEADINGS:
        body = re.sub(rf"\s*{heading}:", f"\n- **{heading}:**", body)
    return f"## {name}\n\n{first.strip()}\n{body}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_catalogue())
