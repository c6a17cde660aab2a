"""The list of a run's captures and exports: made of what is here, and held against what is here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from phasewise.carry.parcel import hash_file
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError
from phasewise.records.files import FILES
from phasewise.records.kept import Kept
from phasewise.records.prepare import Artifact
from phasewise.store import read_if_there, write_if_changed


def renew_list(layout: Layout, workload: str, run: str, *, absent: str) -> Kept:
    """List the files that are here, write that beside the records, and return it.

    `absent`: what becomes of a variant's files that are listed and of which none is here: "keep" or "forget" them on the list,
    or "refuse", so that nothing is kept from now on of what another machine or a store may still have.

    Raises:
        UserError: files are listed and not here, and are to be refused.
    """
    here = {one.path: one for one in _list_here(layout, workload, run)}
    folders = {_folder_of(path) for path in here}
    gone = {path: one for path, one in read_list(layout, workload, run).items() if _folder_of(path) not in folders}
    if gone and absent == "refuse":
        path = next(iter(gone))
        raise UserError(
            f"{path}: listed in {_name(layout, workload, run)}, and not here; bring it with `dvc pull`, or from where it is kept, "
            f"or call `phasewise files {workload} {run} --forget` if it is lost"
        )
    files = here | gone if absent == "keep" else here
    kept = Kept(workload=workload, run=run, files=tuple(files[path] for path in sorted(files)))
    if files or _place(layout, workload, run).is_file():
        write_if_changed(kept, _place(layout, workload, run))
    return kept


def check_list(layout: Layout, workload: str, run: str) -> int:
    """How many files are listed, all of which are here; raises UserError for one that is missing or another."""
    listed = read_list(layout, workload, run)
    for path, one in listed.items():
        file = layout.root / path
        if not file.is_file():
            raise UserError(
                f"{path}: listed in {_name(layout, workload, run)}, and not here; bring it from where it is kept"
            )
        if file.stat().st_size != one.bytes or hash_file(file) != one.sha256:
            raise UserError(
                f"{path}: not the file that {_name(layout, workload, run)} lists; bring it again from where it is kept"
            )
    return len(listed)


def read_list(layout: Layout, workload: str, run: str) -> Mapping[str, Artifact]:
    """What is listed, by path; nothing where there is no list."""
    kept = read_if_there(_place(layout, workload, run), Kept)
    return {one.path: one for one in (() if kept is None else kept.files)}


def _list_here(layout: Layout, workload: str, run: str) -> Iterator[Artifact]:
    for folder in (layout.captures(workload, run, ""), layout.exports(workload, run, "")):
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            yield Artifact(path=layout.relative(path), sha256=hash_file(path), bytes=path.stat().st_size)


def _folder_of(path: str) -> tuple[str, ...]:
    """Kind, workload, run and variant: a variant's captures, or its exports, are made together."""
    return Path(path.removeprefix("profiles/")).parts[:4]


def _place(layout: Layout, workload: str, run: str) -> Path:
    return layout.run(workload, run) / FILES[Kept]


def _name(layout: Layout, workload: str, run: str) -> str:
    return layout.relative(_place(layout, workload, run))
