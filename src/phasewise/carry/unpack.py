"""What came back from a box, taken into the project: all of it, or nothing and one sentence why not."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phasewise.carry.box import RETURNED
from phasewise.carry.kept import renew_list
from phasewise.carry.pack import call_git
from phasewise.carry.parcel import extract, join_pieces, read_manifest
from phasewise.environment import short_name
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError
from phasewise.records.machine import Machine
from phasewise.store import read

WORKLOAD, RUN = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"(tiny|small|full)-[a-z0-9]+")
# records that are made from the others, and are made again here
JUDGED = frozenset({"analyse.json", "ledger.json", "summary.json", "files.json"})


class Made(msgspec.Struct):
    """What a record says of the machine that it was made on; the rest of it is not looked at."""

    # its identity, or all that is known of it
    machine: str | Machine = ""

    @property
    def model(self) -> str:
        return self.machine.name if isinstance(self.machine, Machine) else self.machine.partition(";")[0]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What was taken in."""

    # workload and name of each run
    runs: tuple[tuple[str, str], ...]
    files: int
    # names of what stayed on the box
    left_out: tuple[str, ...]


def unpack(layout: Layout, folder: Path, *, replace: bool) -> Taken:
    """Take the records, machines, captures and exports of `folder` into the project.

    `replace`: a run that came takes the place of the one on record, instead of being added to it.

    Raises:
        UserError: something is wrong with what came, or it does not fit to what is on record. Nothing is taken then.
    """
    layout = Layout(layout.root.resolve())
    (layout.root / ".phasewise").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.root / ".phasewise", prefix="unpack-") as scratch:
        came = Layout(Path(scratch))
        told = read_manifest(folder)
        names = _extract_all(folder, told["files"], came.root)
        _check_commit(layout.root, str(told.get("commit")), folder)
        runs = _list_runs(came)
        if not runs:
            raise UserError(f"{folder}: holds no record of a run; see its logs for what happened on the box")
        for workload, run in runs:
            _check_machine(came, layout, workload, run, runs)
            if not replace:
                _check_same(came, layout, workload, run)
        for workload, run in runs if replace else ():
            _make_place(came, layout, workload, run)
        names = [name for name in names if _is_of(name, runs)]
        for name in names:
            target = layout.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(came.root / name, target)
        for workload, run in runs:
            renew_list(layout, workload, run, absent="forget" if replace else "keep")
    return Taken(runs=runs, files=len(names), left_out=tuple(told.get("left_out", ())))


def _extract_all(folder: Path, files: Sequence[dict[str, str]], into: Path) -> list[str]:
    """Write the files of all archives below `into`; raises UserError."""
    names: list[str] = []
    for archive, folders in RETURNED.items():
        pieces = sorted(folder / one["path"] for one in files if one["path"].startswith(f"{archive}."))
        if not pieces:
            continue
        with tempfile.TemporaryFile(dir=into) as whole:
            join_pieces(pieces, whole)
            whole.seek(0)
            names += extract(whole, str(folder / archive), into, [f"{one}/" for one in folders])
    return names


def _check_commit(root: Path, commit: str, folder: Path) -> None:
    if call_git(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise UserError(
            f"{folder}: was made at commit {commit}, which this repository does not have; fetch it, then unpack again"
        )


def _list_runs(came: Layout) -> tuple[tuple[str, str], ...]:
    """Workload and name of each run of which more than its plans came; raises UserError for a folder that is none.

    A box plans all that is configured, and makes what it is asked for.
    """
    found = []
    for folder in sorted((came.root / "profiles/records").glob("*/*")):
        workload, run = folder.parent.name, folder.name
        if not (WORKLOAD.fullmatch(workload) and RUN.fullmatch(run) and (folder / "plan.json").is_file()):
            raise UserError(
                f"{folder.relative_to(came.root)}: came, and is no run with a plan; pack it up on the box again"
            )
        if any(not path.name.endswith("plan.json") for path in folder.rglob("*.json")):
            found.append((workload, run))
    return tuple(found)


def _is_of(name: str, runs: Sequence[tuple[str, str]]) -> bool:
    """Whether a file is of one of these runs, of their machines, or of none."""
    parts = Path(name.removeprefix("profiles/")).parts
    if parts[0] == "machines":
        return parts[1].partition(".")[0] in {run.partition("-")[2] for _, run in runs}
    return parts[0] in (".snakemake", "logs") or parts[1:3] in runs


def _check_machine(came: Layout, layout: Layout, workload: str, run: str, runs: Sequence[tuple[str, str]]) -> None:
    """A run holds one model of GPU, and its name ends in it."""
    device = run.partition("-")[2]
    place = f"{workload}/{run}"
    if not came.identity(device).is_file():
        raise UserError(f"{place}: came without profiles/machines/{device}.identity.json; pack it up on the box again")
    machine = read(came.identity(device), Machine)
    model = short_name(machine.name) if machine.kind == "cuda" else machine.kind
    if machine.device != device or not re.fullmatch(rf"{model}(x\d+)?", device):
        raise UserError(
            f"{place}: a run of {device}, and the machine that came is {machine.name}; name the run after its machine"
        )
    for path in sorted(came.run(workload, run).rglob("*.json")):
        name = path.relative_to(came.root)
        try:
            made = msgspec.json.decode(path.read_bytes(), type=Made).model
        except msgspec.MsgspecError as error:
            raise UserError(f"{name}: came, and is no record ({error}); pack it up on the box again") from error
        if made not in ("", machine.name):
            raise UserError(
                f"{name}: made on {made}, and the run is of {machine.name}; records of two machines are never chained"
            )
    _check_others(machine, layout, runs)


def _check_others(machine: Machine, layout: Layout, runs: Sequence[tuple[str, str]]) -> None:
    """Runs on record of that device stay comparable with its machine."""
    path = layout.identity(machine.device)
    if not path.is_file() or read(path, Machine).identity == machine.identity:
        return
    records = layout.root / "profiles/records"
    here = {(one.parent.parent.name, one.parent.name) for one in records.glob(f"*/*-{machine.device}/plan.json")}
    if others := sorted(here - {*runs}):
        raise UserError(
            f"{layout.relative(path)}: {read(path, Machine).identity}, on which {'/'.join(others[0])} was measured, and what came is of "
            f"{machine.identity}; bring those runs anew too, or move them out of profiles/records first"
        )


def _check_same(came: Layout, layout: Layout, workload: str, run: str) -> None:
    """What is on record already is what came."""
    for path in sorted(came.run(workload, run).rglob("*.json")):
        there = layout.root / path.relative_to(came.root)
        if path.name not in JUDGED and there.is_file() and there.read_bytes() != path.read_bytes():
            raise UserError(
                f"{there.relative_to(layout.root)}: on record already, and another came; "
                "give --replace to have the run that came in the place of the one on record"
            )


def _make_place(came: Layout, layout: Layout, workload: str, run: str) -> None:
    """Remove the run's records, and captures and exports that were made with other records than those that came."""
    for folder, record in ((layout.captures, "profile.json"), (layout.exports, "export.json")):
        for of_variant in folder(workload, run, "").glob("*"):
            old, new = (one.records(workload, run, of_variant.name) / record for one in (layout, came))
            if not (old.is_file() and new.is_file() and old.read_bytes() == new.read_bytes()):
                shutil.rmtree(of_variant)
    shutil.rmtree(layout.run(workload, run), ignore_errors=True)
