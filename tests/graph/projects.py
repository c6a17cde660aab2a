"""Projects in temporary folders, and the real graph run on them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
CONTRACT = REPOSITORY / "tests" / "contract"
# as little as gives every record: these tests are about the graph, and claim nothing about speed
LITTLE = {
    "min_rounds": 3,
    "max_rounds": 3,
    "min_sets": 1,
    "max_sets": 1,
    "block_s": 0.005,
    "block_steps": 2,
    "seconds": 20,
    "timeout_s": 120,
}
RUN = "tiny-cpu"
# bundling it takes as long as the rest of a report
SCRIPT = "reports/vega.js"
# of one graph; those of many workloads run beside other tests
LIMIT_S = 560


@dataclass(frozen=True)
class Project:
    """A folder with a configuration and workload files."""

    folder: Path

    def call(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a Python module here, such as `snakemake` or `phasewise`."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env=surroundings(self.folder, environment),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def run(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the graph, by default to its end."""
        return self.call(*snakemake(self.folder), *arguments, check=check, **environment)

    def jobs(self, *arguments: str) -> set[str]:
        """The jobs that a run would start now: rule and variant or case, or the rule alone."""
        return list_jobs(self.run("-n", *arguments).stdout)

    def records(self, workload: str, variant: str = "") -> Path:
        return self.folder / "profiles" / "records" / workload / RUN / variant

    def read(self, workload: str, variant: str, stage: str) -> dict[str, Any]:
        """A record as plain data; a record of the run itself has no variant."""
        return json.loads((self.records(workload, variant) / f"{stage}.json").read_text())

    def case(self, workload: str, variant: str, stage: str, case: str) -> dict[str, Any]:
        """One case of a variant's record."""
        return next(found for found in self.read(workload, variant, stage)["cases"] if found["case"] == case)

    def summary(self, workload: str) -> dict[str, Any]:
        return json.loads((self.folder / "reports" / workload / RUN / "summary.json").read_text())

    def page(self, workload: str, name: str = "index.html") -> str:
        return (self.folder / "reports" / workload / RUN / name).read_text()

    def pages(self, workload: str) -> str:
        """All pages of the run."""
        return "".join(page.read_text() for page in sorted((self.folder / "reports" / workload / RUN).glob("*.html")))

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a passage that has to be there."""
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new))

    def configure(self, **changes: Any) -> None:
        """Change top-level keys of the configuration."""
        path = self.folder / "workflow" / "config.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}, sort_keys=False))

    def contents(self, *patterns: str) -> dict[str, bytes]:
        """Bytes of the records whose names match, by path below the project."""
        found = (path for pattern in patterns for path in (self.folder / "profiles" / "records").rglob(pattern))
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}


def make_project(folder: Path, workloads: Mapping[str, str | Path], **options: Any) -> Project:
    """A project in `folder`: each workload's text, or a file or folder that is copied; `options` go into the configuration."""
    (folder / "workflow").mkdir(parents=True)
    sources = {}
    for name, source in workloads.items():
        if isinstance(source, Path) and source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            sources[name] = f"./{name}"
        else:
            (folder / f"{name}.py").write_text(source.read_text() if isinstance(source, Path) else source)
            sources[name] = f"{name}.py"
    configuration = {
        "workloads": {name: {"source": source} for name, source in sources.items()},
        "profilers": ["torch"],
        "exporters": [],
        **options,
        "measure": {**LITTLE, **options.get("measure", {})},
    }
    (folder / "workflow" / "config.yaml").write_text(yaml.safe_dump(configuration, sort_keys=False))
    return Project(folder)


def lend(project: Project, other: Project) -> None:
    """Give `other` what is the same for all projects of this machine: its measured peaks, and the script of all indexes."""
    # with what Snakemake knows of them, as if they had been measured there
    for folder in ("profiles/machines", ".snakemake/metadata"):
        shutil.copytree(project.folder / folder, other.folder / folder)
    (other.folder / SCRIPT).parent.mkdir()
    shutil.copyfile(project.folder / SCRIPT, other.folder / SCRIPT)


def copy_project(project: Project, folder: Path) -> Project:
    """Another project with the same files, as old as they are."""
    shutil.copytree(project.folder, folder, symlinks=True)
    return Project(folder)


def snakemake(folder: Path) -> list[str]:
    """The module and arguments that run the repository's graph on the project in `folder`."""
    return ["snakemake", "--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(folder)]


def surroundings(folder: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """One thread, and a lock of its own: tests that run at once need not wait for each other, they claim no speed."""
    own = {"OMP_NUM_THREADS": "1", "PHASEWISE_LOCK_DIR": str(folder), "DVC_NO_ANALYTICS": "1"}
    return {**os.environ, **own, **(changes or {})}


def list_jobs(text: str) -> set[str]:
    """`validate 01-a`, `headline rows`, `report`, ... of what a dry run prints."""
    found = set()
    for block in re.split(r"\n\[|\n\n", text):
        rule = re.search(r"^\s*(?:local)?(?:rule|checkpoint) (\w+):", block, re.MULTILINE)
        subject = re.search(r"wildcards: .*(?:variant|case)=([\w-]+)", block)
        if rule and rule[1] != "all":
            found.add(f"{rule[1]} {subject[1]}" if subject else rule[1])
    return found


def share(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Project]) -> Project:
    """The project that `make` builds and runs, made once for all test processes."""
    # below the base folder of this whole run, where pytest-xdist gives each worker one of its own
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, outcome = base / name, base / f"{name}.outcome"
    with hold(base / f"{name}.lock"):
        if not outcome.exists():
            try:
                make(folder)
            except AssertionError as error:
                outcome.write_text(str(error))
            else:
                outcome.touch()
    assert not outcome.read_text(), outcome.read_text()
    return Project(folder)


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Keep other processes out."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def unreadable(files: Iterable[Path]) -> list[str]:
    """Those that are no whole JSON."""
    found = []
    for path in files:
        try:
            json.loads(path.read_text())
        except ValueError as error:
            found.append(f"{path}: {error}")
    return found


def put_on_record(project: Project, device: str) -> None:
    """The identity of a GPU box, as `phasewise plan` leaves it there."""
    project.call("phasewise", "plan", "--quiet")
    folder = project.folder / "profiles/machines"
    machine = json.loads((folder / "cpu.identity.json").read_text())
    machine |= {"device": device, "kind": "cuda", "name": "a GPU", "gpus": 1, "capability": [9, 0]}
    (folder / f"{device}.identity.json").write_text(json.dumps(machine))
