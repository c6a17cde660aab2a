"""Links of the studies' pages to lines of code: [`name`](file.py#L12) is the line that defines `name`.

`python -m phasewise_studies.links` puts the lines right after an edit (`make tables` calls it); a test holds them there.
"""

from __future__ import annotations

import re
from pathlib import Path

STUDIES = Path(__file__).parent
LINK = re.compile(r"\[`(?P<name>\w+)`\]\((?P<path>[^)#\s]+)#L(?P<line>\d+)\)")


def list_pages() -> list[Path]:
    """README.md and notes of every study."""
    return sorted([*STUDIES.glob("*/README.md"), *STUDIES.glob("*/notes/*.md")])


def find_definition(path: Path, name: str) -> int | None:
    """Line, from 1, that defines `name`: a function, class or top-level value of Python, a function of CUDA C++; None if there is none."""
    python = rf"^\s*((?:async )?def|class) {name}\b|^{name}(: [^=]+)? = "
    native = rf"^[\w:<>*& ]+\b{name}\("
    source = path.read_text()
    found = re.search(python if path.suffix == ".py" else native, source, re.MULTILINE)
    # the line of the name itself: an expression may begin with the empty lines before it
    return None if found is None else source.count("\n", 0, found.end()) + 1


def renew(text: str, folder: Path) -> str:
    """A page with the lines of its links put right.

    :raises ValueError: a link's file doesn't exist or doesn't define its name
    """

    def put_right(link: re.Match[str]) -> str:
        path = folder / link["path"]
        line = find_definition(path, link["name"]) if path.is_file() else None
        if line is None:
            raise ValueError(f"{folder.name}: {link[0]} names nothing that {link['path']} defines")
        return f"[`{link['name']}`]({link['path']}#L{line})"

    return LINK.sub(put_right, text)


if __name__ == "__main__":
    for page in list_pages():
        page.write_text(renew(page.read_text(), page.parent))
