"""Whether a record still is what today's files would give: by what its processes loaded, not by a commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from phasewise.model.discover import load_module, load_workload, program_name
from phasewise.model.sources import add_named_files, follow_imports, hash_files, name_files, name_module

# beside the program module, where they exist
SIBLINGS = ("checks", "peers")


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

    def stamp(self, loaded: Iterable[str]) -> dict[str, str]:
        """Hash of each file that processes loaded, as it stood when this closure was made; those of the plan are left out."""
        names = set(loaded) - self.planned
        late = hash_files(names - self.files.keys())
        return {name: self.files.get(name) or late[name] for name in sorted(names)}


def find_closure(source: str, root: Path) -> Closure:
    """The closure of the workload at `source`; imports its `phases.py` and parses the rest.

    Raises:
        PlanError: the workload can't be loaded.
    """
    workload = load_workload(source, root)
    program = program_name(workload, source, root)
    package = program.rpartition(".")[0]
    reached = follow_imports(
        name
        for module in (program, *(f"{package}.{sibling}" for sibling in SIBLINGS if package))
        for name in name_files(module)
    )
    plan = name_module(load_module(source, root))
    planned = follow_imports([plan]) - reached if plan is not None else set()
    return Closure(files=hash_files(add_named_files(reached)), planned=frozenset(planned))


def list_changed(loaded: Mapping[str, str]) -> list[str]:
    """Files whose content is another now than when the record was made."""
    return [name for name, now in hash_files(loaded).items() if now != loaded[name]]


def digest_changed(closure: Closure, changed: Iterable[str]) -> str:
    """A digest of the closure, and of files beside it that have changed."""
    beside = hash_files(set(changed) - closure.files.keys())
    return _digest({**closure.files, **beside})


def _digest(files: Mapping[str, str]) -> str:
    text = "\n".join(f"{name} {found}" for name, found in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
