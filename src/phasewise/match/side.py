"""One side of a match, as people name it: `file.py:name`, `package.module:name`, or either without a name. Imports no torch."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from phasewise.records.errors import UserError

# what a side without a name means: the form of KernelBench
BASE_NAMES = ("Model",)
CANDIDATE_NAMES = ("ModelNew", "Model")
NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
FORM = re.compile(rf"(?P<source>.+?\.py|{NAME})(?::(?P<name>{NAME}))?(?:@(?P<revision>.+))?")
FORMS = "write file.py:name or package.module:name, with @revision behind it for a git revision, or a file of KernelBench's form alone"


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a function or a class is found."""

    # file.py, absolute, or package.module
    source: str
    # in that module; "" is the first of its role's names that is there
    name: str = ""
    # of git; "" is what lies there
    revision: str = ""
    # folders that imports look in first
    roots: tuple[str, ...] = ()
    # where relative paths that it opens start; "" is where the process happens to be
    folder: str = ""

    @property
    def target(self) -> str:
        """As messages name it."""
        return f"{self.source}:{self.name}" if self.name else self.source


def parse_side(text: str) -> Side:
    """The side that `text` names; whether it exists is seen later.

    :raises UserError: it is of no such form
    """
    found = FORM.fullmatch(text)
    if found is None:
        raise UserError(f"judge: {text!r} names no function or class; {FORMS}")
    source = found["source"]
    return Side(
        source=str(Path(source).resolve()) if source.endswith(".py") else source, name=found["name"] or "", revision=found["revision"] or "",
        folder=str(Path.cwd()),
    )  # fmt: skip


def read_source(side: Side) -> bytes:
    """What its file holds now; nothing of a module's, whose place only a process that imports it knows."""
    file = Path(side.source)
    return file.read_bytes() if file.suffix == ".py" and file.is_file() else b""


def write_side(side: Side) -> str:
    """As a switch or a shape holds it."""
    return msgspec.json.encode(side).decode()


def read_side(text: str) -> Side:
    """What `write_side` wrote."""
    return msgspec.json.decode(text, type=Side)
