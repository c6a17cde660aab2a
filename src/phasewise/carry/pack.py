"""One folder with all that a box without network needs to run a project."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import zipapp
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from phasewise.carry import wheels
from phasewise.carry.parcel import MANIFEST, join_pieces, read_manifest, write_archive, write_manifest
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError

HERE = Path(__file__).parent
# what the graph makes: records come by `origins`, the rest is made anew there
MADE = ("reports", "profiles/records", "profiles/captures", "exports")
# what is prepared once and not in git
PREPARED = ("data", ".phasewise/references")
# packages without which nothing starts; the second is there where the studies are installed
OWN = ("phasewise", "phasewise_studies", "snakemake_logger_plugin_phasewise")
# what starts there
STARTER = (
    *(f"phasewise/carry/{name}.py" for name in ("__init__", "parcel", "box")),
    *(f"phasewise/records/{name}.py" for name in ("__init__", "errors")),
)
SOURCES, DATA = "sources.tgz", "data.tgz"
# all that a packed folder holds beside its manifest
PACKED = ("*.tgz", "run.sh", "start.pyz", "lib/*", "wheels/*")
# one modification time for all records, so that none seems older than another
AGE = 1_000_000_000


def pack(
    layout: Layout,
    folder: Path,
    *,
    python: str,
    there: str,
    extra: Sequence[str],
    origins: Sequence[Path],
    libraries: Path | None,
    lean: bool,
    say: Callable[[str], None],
) -> None:
    """Write the folder. `there`: packages of the box, a line each; `extra`: requirements besides the project's; `origins`: records to go on from.

    Wheels that an earlier call has put there for the same wishes stay. Raises UserError.
    """
    folder = folder.resolve()
    commit = find_commit(layout.root, folder)
    lock = layout.root / "requirements.lock"
    locked = wheels.read_versions(lock.read_text()) if lock.is_file() else wheels.list_installed()
    wanted = [*wheels.ROOTS, *extra]
    wishes = hashlib.sha256(json.dumps([python, there, wanted, locked]).encode()).hexdigest()
    make_room(folder, wishes)
    box = wheels.Box(
        python=python, there=wheels.read_versions(there), locked={name: one for name, one in locked.items() if one}
    )
    wheels.collect_wheels(wanted, box, folder / "wheels")
    archives = [SOURCES]
    archive_sources(layout.root, commit, folder)
    if foreign := list(list_foreign(layout.root)):
        archives.append("packages.tgz")
        write_archive(foreign, folder / "packages.tgz")
    if not lean and (prepared := list(list_files(layout.root, PREPARED))):
        archives.append(DATA)
        write_archive(prepared, folder / DATA)
    for number, origin in enumerate(origins):
        archives.append(f"from.{number}.tgz")
        archive_records(layout, origin, folder / archives[-1])
    if libraries is not None:
        shutil.copytree(libraries, folder / "lib", dirs_exist_ok=True)
    shutil.copy(HERE / "run.sh", folder)
    write_starter(folder / "start.pyz")
    files = sorted(path for pattern in PACKED for path in folder.glob(pattern))
    write_manifest(folder, files, {"commit": commit, "python": python, "wheels": wishes, "archives": archives})
    for name in sorted({path.relative_to(folder).parts[0] for path in files}):
        size = sum(path.stat().st_size for path in files if path.relative_to(folder).parts[0] == name)
        say(f"{name:<16} {size / 1e6:8.1f} MB")


def find_commit(root: Path, folder: Path) -> str:
    """The commit to pack, 12 digits; UserError where what is packed is not in it."""
    done = call_git(root, "rev-parse", "--short=12", "HEAD")
    if done.returncode:
        raise UserError(
            f"{root}: has no commit, and sources are packed by commit; call `git init` and `git commit` first"
        )
    left = [f":(exclude){one}" for one in MADE]
    if folder.is_relative_to(root):
        left.append(f":(exclude){folder.relative_to(root).as_posix()}")
    changed = call_git(root, "status", "--porcelain", "--", ".", *left).stdout.splitlines()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UserError(
            f"{changed[0][3:]}{more}: not as in the commit that would be packed; commit or stash, then pack again"
        )
    return done.stdout.strip()


def call_git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Git in that folder."""
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)


def make_room(folder: Path, wishes: str) -> None:
    """A folder without what an earlier call has packed, but for wheels of the same wishes; UserError where it holds what no `pack` has written."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MANIFEST).is_file())):
        raise UserError(f"{folder}: is there and nothing that was packed; name another folder")
    try:
        kept = (folder / MANIFEST).is_file() and read_manifest(folder)["wheels"] == wishes
    except (UserError, KeyError):
        kept = False
    # first of all: without it the folder is not whole
    (folder / MANIFEST).unlink(missing_ok=True)
    for pattern in PACKED:
        for path in folder.glob(pattern) if not (kept and pattern == "wheels/*") else ():
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def archive_sources(root: Path, commit: str, folder: Path) -> None:
    """What is in the commit, but for what the graph makes."""
    left = [f":(exclude){one}" for one in MADE]
    target = folder / SOURCES
    done = call_git(root, "archive", "--format=tar.gz", f"--output={target}", commit, "--", ".", *left)
    if done.returncode:
        raise UserError(f"{root}: git could not archive {commit}: {done.stderr.strip()}")


def list_foreign(root: Path) -> Iterator[tuple[str, Path]]:
    """Files of this package and the studies, where the project is not their repository."""
    for name in OWN:
        found = importlib.util.find_spec(name)
        package = Path(found.origin).parent if found is not None and found.origin else None
        if package is None or package.is_relative_to(root):
            continue
        # folders of the package may be links to those of the project that it comes from
        for folder, _, names in os.walk(package, followlinks=True):
            for name_of in sorted(names):
                path = Path(folder, name_of)
                if path.suffix != ".pyc":
                    yield f".phasewise/src/{name}/{path.relative_to(package).as_posix()}", path


def list_files(root: Path, folders: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Files below folders of the project, by name."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                yield path.relative_to(root).as_posix(), path


def archive_records(layout: Layout, origin: Path, target: Path) -> None:
    """Records to go on from: what came back from a box, or a run of the project, such as profiles/records/painn/full-h100."""
    if (origin / MANIFEST).is_file():
        pieces = [
            origin / one["path"] for one in read_manifest(origin)["files"] if one["path"].startswith("records.tgz.")
        ]
        with target.open("wb") as file:
            join_pieces(pieces, file)
        return
    run = origin.resolve()
    if not (run / "plan.json").is_file() or run.parents[1] != layout.root.resolve() / "profiles/records":
        raise UserError(
            f"--from {origin}: neither came back from a box nor holds a run; name such a folder, or profiles/records/WORKLOAD/RUN"
        )
    device = run.name.partition("-")[2]
    files = [*list_files(layout.root, [run.relative_to(layout.root.resolve()).as_posix()])]
    files += [(layout.relative(one), one) for one in (layout.machine(device), layout.identity(device)) if one.is_file()]
    # modification times of a checkout say nothing
    write_archive(files, target, age=AGE)


def write_starter(target: Path) -> None:
    """The part of this package that runs before anything is installed, as one file."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in STARTER:
            (Path(scratch) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE.parents[1] / name, Path(scratch) / name)
        (Path(scratch) / "phasewise/__init__.py").touch()
        zipapp.create_archive(scratch, target, main="phasewise.carry.box:start")
