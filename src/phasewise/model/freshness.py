"""Whether a record still is what today's files would give: by what its processes loaded, not by a commit."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from phasewise.model.apart import call_apart
from phasewise.model.discover import PEER, load_workload, make_importable, name_source
from phasewise.model.layout import Layout
from phasewise.model.parse import parse
from phasewise.model.sources import STARTUP, add_named_files, find_file, follow_imports, hash_files, name_files
from phasewise.model.workload import Workload
from phasewise.records.base import Scalar
from phasewise.records.errors import PlanError, RecordError
from phasewise.records.plan import PlannedVariant, RunPlan
from phasewise.store import read_content

# beside the program module, where they exist
SIBLINGS = ("checks", "peers")
# the records whose processes run the variant's own program
RECORDS = ("validate.json", "measure.json")


@dataclass(frozen=True, kw_only=True)
class Closure:
    """The files that a workload's processes may load, as its sources stand now."""

    # every file that the program, its checks and its peers import, at any place in them: name -> hash
    files: Mapping[str, str]
    # files that only the plan is made from: what matters of them stands in plan.json
    planned: frozenset[str]

    @property
    def digest(self) -> str:
        """SHA-256, 16 digits, of all files with their names."""
        return _digest(self.files)

    def stamp(self, processes: Iterable[Collection[str]]) -> dict[str, str]:
        """Hash of each file that processes loaded, as it stood when this closure was made; those of the plan are left out.

        Of a process that has told of none, since it died, all that it may have loaded count.
        """
        names = {name for loaded in processes for name in loaded or self.files} - self.planned
        late = hash_files(names - self.files.keys())
        return {name: self.files.get(name) or late[name] for name in sorted(names)}


def find_closure(source: str, program: str, root: Path) -> Closure:
    """The closure of the workload at `source`, whose `build` is in the module `program`; files are parsed, nothing is imported.

    Raises:
        PlanError: there is no such file.
    """
    make_importable(source, root)
    package = program.rpartition(".")[0]
    own = name_files(program)
    reached = follow_imports(
        [
            *own,
            *(name for sibling in SIBLINGS if package for name in name_files(f"{package}.{sibling}")),
            *(peer for name in own if package for peer in _list_lone_peers(name)),
        ]
    )
    planned = follow_imports(name_files(name_source(source, root))) - reached
    return Closure(files=hash_files(add_named_files(reached)), planned=frozenset(planned))


def _list_lone_peers(program: str) -> Iterator[str]:
    """Files beside the program's that hold one peer each."""
    path = find_file(program)
    for peer in sorted(path.parent.glob(f"{PEER}*.py")) if path is not None else ():
        yield str(PurePosixPath(program).with_name(peer.name))


class Stamp(msgspec.Struct):
    """What a record says of how it was made."""

    plan: str = ""
    # of a record that was made of several variants
    plans: dict[str, str] = {}
    commit: str = ""
    # None: made before records listed what their processes loaded
    loaded: dict[str, str] | None = None


class Lineage(msgspec.Struct):
    """What a variant's plan says of what it is built on."""

    ancestors: tuple[str, ...] = ()


def read_stamp(path: Path) -> Stamp | None:
    """The stamp of the record at `path`; None where there is none that can be read."""
    try:
        return msgspec.json.decode(read_content(path), type=Stamp)
    except (RecordError, msgspec.DecodeError, RecursionError):
        return None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How the records of a run stand to today's files."""

    # by variant with records: what has changed since, of the files that it or an ancestor loaded and of their phases; None = not known
    changed: Mapping[str, tuple[str, ...] | None]
    # commits that the records were made at
    commits: tuple[str, ...]

    @property
    def fresh(self) -> frozenset[str]:
        return frozenset(variant for variant, files in self.changed.items() if files == ())

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that has changed."""
        return tuple(sorted({name for files in self.changed.values() for name in files or ()}))


def judge_run(run: RunPlan, root: Path) -> Standing:
    """Compare what the run's processes loaded with the files as they are, and its phases with those that are declared now.

    A variant is measured beside its parent, so it stands no better than its ancestors.
    """
    make_importable(run.source, root)
    replanned = _list_replanned(run, root)
    stamps = {row.variant: _read_stamps(run, row.variant, root) for row in run.variants}
    now = hash_now(one.loaded or {} for stamped in stamps.values() for one in stamped)
    own: dict[str, tuple[str, ...] | None] = {}
    for variant, stamped in stamps.items():
        if stamped:
            files = (None if one.loaded is None else list_changed(one.loaded, now) for one in stamped)
            own[variant] = _join((replanned.get(variant, ()), *files))
    # of all variants, those that a variant stands on before it
    found: dict[str, tuple[str, ...] | None] = {}
    for row in run.variants:
        below = [found[name] for name in _list_ancestors(row, run, root) if name in found]
        found[row.variant] = _join((own.get(row.variant, ()), *below))
    changed = {name: files for name, files in found.items() if name in own}
    commits = {one.commit for stamped in stamps.values() for one in stamped}
    return Standing(changed=changed, commits=tuple(sorted(commits)))


def _read_stamps(run: RunPlan, variant: str, root: Path) -> list[Stamp]:
    """Of the variant's records that are there."""
    folder = Layout(root).records(run.workload, run.run, variant)
    return [stamp for name in RECORDS if (stamp := read_stamp(folder / name)) is not None]


def _list_ancestors(row: PlannedVariant, run: RunPlan, root: Path) -> tuple[str, ...]:
    """In any case of the variant; the plan tells those of its first."""
    try:
        plan = read_content(Layout(root).records(run.workload, run.run, row.variant) / "plan.json")
        return (*row.ancestors, *msgspec.json.decode(plan, type=Lineage).ancestors)
    except (RecordError, msgspec.DecodeError, RecursionError):
        return row.ancestors


def _list_replanned(run: RunPlan, root: Path) -> dict[str, tuple[str, ...]]:
    """Variants of phases that are declared otherwise now: other switches, kept or no longer kept."""
    try:
        declared = {phase.name: phase for phase in _read_phases(run.source, root, _list_ages(run.source, root))}
    except PlanError:
        # its files are gone too, and stand as changed by themselves
        return {}
    rows = {row.variant for row in run.variants}
    found: dict[str, tuple[str, ...]] = {}
    for told in run.phases:
        phase = declared.get(told.phase)
        same = phase is not None and told.kept == phase.kept
        if phase is not None and told.variant in rows:
            switches = run.switches_of(told.variant)
            same = same and all(switches.get(name, value) == value for name, value in phase.sets.items())
        if not same:
            found[told.variant] = (f"phase {told.phase}",)
    return found


class Declared(msgspec.Struct):
    """What is compared of a phase as it is declared now."""

    name: str
    kept: bool
    sets: dict[str, Scalar]


@functools.lru_cache(maxsize=64)
def _read_phases(source: str, root: Path, ages: tuple[int, ...]) -> list[Declared]:
    """The phases as they are declared in files of these ages; raises PlanError."""
    payload = {"source": source, "root": str(root)}
    return call_apart(f"{__name__}:list_phases", [payload], list[Declared], places=[source])[0]


def _list_ages(source: str, root: Path) -> tuple[int, ...]:
    """When the files that the phases are declared in were changed."""
    files = (find_file(name) for name in sorted(follow_imports(name_files(name_source(source, root)))))
    return tuple(file.stat().st_mtime_ns for file in files if file is not None)


def list_phases(payload: dict[str, str]) -> list[Declared]:
    """The phases of the workload at {source, root}."""
    phases = parse(load_workload(payload["source"], Path(payload["root"])), Workload, payload["source"]).phases
    return [Declared(name=one.name, kept=one.keep and one.must is None, sets=dict(one.sets)) for one in phases]


def _join(parts: Iterable[Iterable[str] | None]) -> tuple[str, ...] | None:
    """All of them together; None if any is not known."""
    found: set[str] = set()
    for part in parts:
        if part is None:
            return None
        found |= set(part)
    return tuple(sorted(found))


def hash_now(loaded: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Today's hashes of all files that these records loaded."""
    return hash_files({name for files in loaded for name in files}.difference(STARTUP))


def list_changed(loaded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files whose content is another `now` than when the record was made."""
    return [name for name, then in sorted(loaded.items()) if name not in STARTUP and now[name] != then]


def digest_changed(closure: Closure, changed: Iterable[str]) -> str:
    """A digest of the closure, and of files beside it that have changed."""
    beside = hash_files(set(changed) - closure.files.keys())
    return _digest({**closure.files, **beside})


def _digest(files: Mapping[str, str]) -> str:
    text = "\n".join(f"{name} {found}" for name, found in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
