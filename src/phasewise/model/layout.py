"""Where things lie below the project's top folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

VARIANT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


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
        # itself it may be a link to anywhere
        return (path.parent.resolve() / path.name).relative_to(self.root.resolve()).as_posix()
