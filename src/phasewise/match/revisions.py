"""A side at a git revision: in a worktree of its repository, which goes when the match is over. Imports no torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

import msgspec

from phasewise.match.side import Side
from phasewise.records.errors import UserError

# where a repository keeps the packages that it holds
SOURCES = ("", "src")


@contextmanager
def check_out(side: Side, folder: Path) -> Iterator[Side]:
    """The side as it stood at its revision, below `folder`, which must not exist; as it is, where no revision is named.

    Imports that would be found in the repository are found in the worktree instead.

    :raises UserError: it lies in no repository, or there is no such revision, or no such file in it
    """
    if not side.revision:
        yield side
        return
    place = _find_place(side)
    top = Path(_git(_existing(place), "rev-parse", "--show-toplevel"))
    # a hook of the repository is no part of the match
    quietly = ("-c", "core.hooksPath=/dev/null", "worktree")
    _git(top, *quietly, "add", "--quiet", "--detach", str(folder), side.revision)
    try:
        yield _move(side, place, top, folder)
    finally:
        _git(top, *quietly, "remove", "--force", str(folder))


def _move(side: Side, place: Path, top: Path, folder: Path) -> Side:
    moved = folder / place.relative_to(top)
    if not moved.exists():
        raise UserError(
            f"judge: {place.name} does not exist at revision {side.revision}; correct the path or the revision"
        )
    found = [Path(entry or ".").resolve() for entry in sys.path]
    inside = [entry.relative_to(top) for entry in found if entry.is_relative_to(top)]
    roots = dict.fromkeys(str(folder / entry) for entry in (*inside, *map(Path, SOURCES)))
    is_file = side.source.endswith(".py")
    return msgspec.structs.replace(side, source=str(moved) if is_file else side.source, roots=tuple(roots))


def _find_place(side: Side) -> Path:
    """The file, or the top package of the module."""
    if side.source.endswith(".py"):
        return Path(side.source)
    name = side.source.partition(".")[0]
    spec = importlib.util.find_spec(name) or PathFinder.find_spec(name, [str(Path.cwd())])
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise UserError(
            f"judge: module {name!r} does not exist here, so that its repository is not known; name the file"
        )
    locations = list(spec.submodule_search_locations or ())
    return Path(locations[0] if locations else spec.origin or "").resolve()


def _existing(place: Path) -> Path:
    """The nearest folder that is there now: the file may have been moved since."""
    return next(folder for folder in place.parents if folder.is_dir())


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UserError("judge: a revision needs git, which is not installed here; install it or name files") from error
    if done.returncode:
        why = next(iter(done.stderr.strip().splitlines()[::-1]), f"exit status {done.returncode}")
        raise UserError(
            f"judge: git {' '.join(arguments[-2:])} in {folder.name}: {why}; correct the revision or the path"
        )
    return done.stdout.strip()
