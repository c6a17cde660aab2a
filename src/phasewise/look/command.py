"""The command that a user types behind `--`: which Python, which script, which arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phasewise.records.errors import UserError

FORMS = "write -- python SCRIPT.py ARGUMENTS, or -- python -m MODULE ARGUMENTS"
# options of Python that have a value of their own
VALUED = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A script as Python is told to run it."""

    # as it was typed, found as a shell finds it
    python: str
    # of the interpreter
    options: tuple[str, ...]
    # the file; "" for a module
    path: str
    # the module; "" for a file
    module: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """As a reader knows it."""
        return self.module or Path(self.path).name


def parse_command(words: Sequence[str]) -> Command:
    """The command that these words are.

    Raises:
        UserError: it starts no Python, or names no script that is there.
    """
    if not words:
        raise UserError(f"look: no command is given; {FORMS}")
    python, *rest = words
    if not Path(python).name.startswith(("python", "pypy")):
        raise UserError(f"look: {python!r} is no Python, and what it starts can't be followed; {FORMS}")
    options: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        options += [rest.pop(0)]
        if options[-1] in VALUED and rest:
            options += [rest.pop(0)]
    is_module = rest[:1] == ["-m"]
    rest = rest[1:] if is_module else rest
    if not rest or rest[0] in ("-c", "-"):
        raise UserError(f"look: the command names no script; {FORMS}")
    if not is_module and not Path(rest[0]).is_file():
        raise UserError(f"look: {rest[0]}: no such file below {Path.cwd().name}; correct the path")
    path, module = ("", rest[0]) if is_module else (rest[0], "")
    return Command(python=python, options=tuple(options), path=path, module=module, arguments=tuple(rest[1:]))
