"""Where things lie below the project's top folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from phasewise.records.errors import PlanError

WORKLOAD_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
VARIANT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
# `profiles/default` is Snakemake's run profile; the others are names of stages of dvc.yaml or folders of ours
RESERVED = frozenset({"default", "machine", "machines", "index", "records", "captures", "gpu", "slurm"})


@dataclass(frozen=True)
class Layout:
    """Paths of one project."""

    root: Path

    def machine(self, device: str) -> Path:
        return self.root / "profiles" / "machines" / f"{device}.json"

    def identity(self, device: str) -> Path:
        return self.root / "profiles" / "machines" / f"{device}.identity.json"

    def run(self, workload: str, run: str) -> Path:
        return self.root / "profiles" / "records" / workload / run

    def records(self, workload: str, run: str, variant: str) -> Path:
        return self.run(workload, run) / variant

    def captures(self, workload: str, run: str, variant: str) -> Path:
        return self.root / "profiles" / "captures" / workload / run / variant

    def exports(self, workload: str, run: str, variant: str) -> Path:
        return self.root / "exports" / workload / run / variant

    def data(self, workload: str) -> Path:
        return self.root / "data" / workload

    def reference(self, workload: str, case: str, key: str) -> Path:
        return self.root / ".phasewise" / "references" / workload / f"{case}-{key}.pt"

    def report(self, workload: str, run: str) -> Path:
        return self.root / "reports" / workload / run

    def relative(self, path: Path) -> str:
        """`path` as records name it: below the top folder, with forward slashes."""
        return path.resolve().relative_to(self.root.resolve()).as_posix()


def check_name(name: str, pattern: re.Pattern[str], place: str) -> str:
    """`name`, if it is safe as a folder name.

    Raises:
        PlanError: it is not, or it is reserved.
    """
    if not pattern.fullmatch(name):
        raise PlanError(f"{place}: name {name!r} is not allowed; use lower-case letters and digits ({pattern.pattern})")
    if name in RESERVED:
        raise PlanError(f"{place}: name {name!r} is reserved ({', '.join(sorted(RESERVED))}); choose another")
    return name
