"""What each job of the graph depends on, as the rows of the stages say; the Snakemake rules ask here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from phasewise.jobs import OF_RUN, Need, Stage
from phasewise.model.freshness import read_stamp
from phasewise.model.layout import Layout
from phasewise.plan import PlannedRun
from phasewise.plan.split import split_plan
from phasewise.records.analyse import Analysis
from phasewise.records.errors import UserError
from phasewise.records.ledger import Ledger
from phasewise.records.plan import RunPlan, VariantPlan
from phasewise.records.predict import Predicted
from phasewise.run import Run
from phasewise.stages import MEASURE, STAGES
from phasewise.store import digest
from phasewise.workers.lock_file import LockFile


def ancient(path: str) -> Any:
    """Mark an input whose age does not matter: only its presence does."""
    from snakemake.ioflags import flag

    return flag(path, "ancient")


@dataclass(frozen=True, kw_only=True)
class Graph:
    """All planned runs, and the inputs of every job in them; wildcards are Snakemake's."""

    planned: tuple[PlannedRun, ...]
    layout: Layout

    @cached_property
    def runs(self) -> dict[tuple[str, str], Run]:
        """The plans of each run."""
        return {(run.run_plan.workload, run.run_plan.run): _hold_plans(run, self.layout) for run in self.planned}

    @cached_property
    def waiting(self) -> dict[tuple[str, str], Counter[str]]:
        """Of each run, how many variants stand on one."""
        return {
            (run.run_plan.workload, run.run_plan.run): Counter(name for plan in run.variants for name in plan.ancestors)
            for run in self.planned
        }

    def inputs(self, name: str, wildcards: Any) -> list[str]:
        """The records that a job of the stage reads, and those that it waits for.

        Snakemake (9.27) does not look at the plan of a job below one that runs, and an ancient input does not start the
        job either: what is out of date has to be started by the job above it.
        """
        stage, run = STAGES[name], self._find_run(wildcards)
        subject = "" if stage.of == "run" else getattr(wildcards, stage.of)
        known = {"run": [""], "case": run.plan.cases, "variant": run.rows}[stage.of]
        if subject not in known:
            raise ValueError(f"{run.workload}/{run.name} has no {stage.of} {subject}")
        later = (need for need in stage.after(run, subject) if not _is_too_late(run, need))
        needs, after = (self._files(run, needed) for needed in (stage.needs(run, subject), later))
        return [*needs, *(map(ancient, after) if _is_made(stage, run, subject) else after)]

    def count_later(self, wildcards: Any) -> int:
        """Variants of the runs that come after this one: what is written first in the configuration is finished first."""
        runs = list(self.runs.values())
        return sum(len(run.rows) for run in runs[runs.index(self._find_run(wildcards)) + 1 :])

    def count_waiting(self, wildcards: Any) -> int:
        """With them, variants that stand on this one: the longest chain of a run goes first."""
        return self.count_later(wildcards) + self.waiting[wildcards.workload, wildcards.run][wildcards.variant]

    def analyse_inputs(self, wildcards: Any) -> list[str]:
        """Every record of the run."""
        run = self._find_run(wildcards)
        return self._files(run, [*OF_RUN, (RunPlan, ""), *_list_records(run)])

    def report_inputs(self, wildcards: Any) -> list[str]:
        """What was judged; the profiles and gates that the pages show are inputs of that."""
        run = self._find_run(wildcards)
        summary = self.layout.run(run.workload, run.name) / "summary.json"
        return [*self._files(run, [(RunPlan, ""), (Analysis, ""), (Ledger, "")]), self.layout.relative(summary)]

    def index_inputs(self) -> list[str]:
        """What was judged of every planned run; its pages have to be there, and their age tells nothing new."""
        runs = self.runs.values()
        pages = [self.layout.relative(self.layout.report(run.workload, run.name) / "index.html") for run in runs]
        return [*(file for run in runs for file in self._files(run, [(Analysis, "")])), *map(ancient, pages)]

    def targets(self) -> list[str]:
        """The indexes, and every record: one that was deleted is made again, although what was made from it is there."""
        of_runs = ((Analysis, ""), (Ledger, ""))
        records = [file for run in self.runs.values() for file in self._files(run, [*_list_records(run), *of_runs])]
        return ["reports/index.html", "reports/index.md", *records]

    def _find_run(self, wildcards: Any) -> Run:
        found = self.runs.get((wildcards.workload, wildcards.run))
        if found is None:
            raise ValueError(f"{wildcards.workload}/{wildcards.run} is not in the configuration of this machine")
        return found

    def _files(self, run: Run, needs: Iterable[Need]) -> list[str]:
        # thousands of them: the paths are ours, below the top folder, and there is nothing to resolve
        top = f"{self.layout.root.as_posix()}/"
        return [run.path(kind, subject).as_posix().removeprefix(top) for kind, subject in needs]


def _hold_plans(planned: PlannedRun, layout: Layout) -> Run:
    """The plans as they are on disk."""
    run = Run(planned.run_plan.workload, planned.run_plan.run, [planned.run_plan, planned.prepare], layout=layout)
    for plan in planned.variants:
        for record in split_plan(plan):
            run.add(record, plan.variant)
    return run


def _list_records(run: Run) -> list[Need]:
    """The records that the variants and the cases get."""
    subjects = [*(("variant", name) for name in run.rows), *(("case", case) for case in run.plan.cases)]
    made: list[Need] = [
        (stage.record, subject)
        for of, subject in subjects
        for stage in STAGES.values()
        if stage.of == of and stage.applies(run, subject)
    ]
    made = [need for need in made if not _is_too_late(run, need)]
    return [*((VariantPlan, name) for name in run.rows), *made]


def _is_too_late(run: Run, need: Need) -> bool:
    """Whether it is a prediction of what has been measured already: none was made in time, so none is made."""
    kind, variant = need
    return kind is Predicted and not run.path(kind, variant).is_file() and _is_made(MEASURE, run, variant)


def _is_made(stage: Stage, run: Run, subject: str) -> bool:
    """Whether the record is there and of today's plans."""
    stamp = None if stage.of == "run" else read_stamp(run.path(stage.record, subject))
    if stamp is None:
        return False
    made_from = {subject: stamp.plan} if stage.of == "variant" else stamp.plans
    return made_from == {name: digest(plan) for name, plan in stage.plans_of(run, subject).items()}


def lock_project(root: Path) -> LockFile:
    """Keep other runs out of this project until the process ends, however it ends, or the file is closed.

    Raises:
        UserError: another run is at work in this folder.
    """
    folder = root / ".snakemake"
    folder.mkdir(exist_ok=True)
    file = LockFile(folder / "phasewise.lock")
    if not file.try_lock():
        file.close()
        raise UserError("another run is at work in this folder; wait until it ends, or stop it")
    return file
