"""What each job of the graph depends on; the Snakemake rules ask here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasewise.model.followed import name_followed
from phasewise.model.freshness import read_stamp
from phasewise.model.layout import Layout
from phasewise.model.stack import BASELINE
from phasewise.plan.make import PlannedRun
from phasewise.plan.split import split_plan
from phasewise.records.errors import UserError
from phasewise.records.plan import Kind, VariantPlan
from phasewise.store import digest
from phasewise.workers.lock_file import LockFile

Inputs = dict[str, Any]


def ancient(path: str) -> Any:
    """Mark an input whose age does not matter: only its presence does."""
    from snakemake.ioflags import flag

    return flag(path, "ancient")


def is_made_from(path: Path, plan: VariantPlan) -> bool:
    """Whether the record at `path` is of this plan."""
    stamp = read_stamp(path)
    return stamp is not None and stamp.plan == digest(plan)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """All planned runs, and the inputs of every job in them."""

    planned: tuple[PlannedRun, ...]
    layout: Layout

    def validate_inputs(self, wildcards: Any) -> Inputs:
        """The plan, and the gate of the baseline, whose own error is the yardstick.

        They wait for no other, so that they can run side by side, unless the reference covers a sample and the baseline is too
        slow for the rest: then for those that may be followed there.
        """
        plan = self._find(wildcards)
        plans = {other.variant: other for other in self._find_run(plan.workload, plan.run).variants}
        followed = {name for case in plan.cases for name in name_followed(case, plans)}
        ancestors = [name for name in plan.ancestors if name == BASELINE or name in followed]
        return self._base(plan, "validate.json") | {"ancestors": self._files(plan, ancestors, "validate.json")}

    def measure_inputs(self, wildcards: Any) -> Inputs:
        """The plan and the gates; the parent's predictions have to stand before the outcome is known.

        A control has no gate of its own: it repeats a variant that has one, and whose measurement says whether it is too slow
        for that.
        """
        plan = self._find(wildcards)
        is_control = plan.kind is Kind.CONTROL
        own = [] if is_control else [plan.variant]
        predicted = [name for name in plan.ancestors[:1] if plan.kind is Kind.PHASE]
        repeated = sorted({case.parent for case in plan.cases if case.parent and is_control})
        before = [*self._files(plan, predicted, "analyse.json"), *self._files(plan, repeated, "measure.json")]
        return (
            self._base(plan, "measure.json")
            | {"gates": self._files(plan, [*own, *plan.ancestors], "validate.json")}
            | {"before": self._settle(plan, "measure.json", before)}
        )

    def count_later(self, wildcards: Any) -> int:
        """Variants of the runs that come after this one: what is written first in the configuration is finished first."""
        later = self.planned[self.planned.index(self._find_run(wildcards.workload, wildcards.run)) + 1 :]
        return sum(len(run.variants) for run in later)

    def count_waiting(self, wildcards: Any) -> int:
        """With them, variants that stand on this one: the longest chain of a run goes first."""
        run = self._find_run(wildcards.workload, wildcards.run)
        return self.count_later(wildcards) + sum(wildcards.variant in plan.ancestors for plan in run.variants)

    def profile_inputs(self, wildcards: Any) -> Inputs:
        """The plan, what is to be captured, and the gate."""
        return self._capture_inputs(self._find(wildcards), "profile.json")

    def export_inputs(self, wildcards: Any) -> Inputs:
        """What a profile depends on."""
        return self._capture_inputs(self._find(wildcards), "export.json")

    def _capture_inputs(self, plan: VariantPlan, record: str) -> Inputs:
        return self._base(plan, record) | {
            "captures": self._file(plan, "capture.plan.json"),
            "gate": self._file(plan, "validate.json"),
        }

    def analyse_variant_inputs(self, wildcards: Any) -> Inputs:
        """Records of this variant alone: a prediction must not know what comes after."""
        plan = self._find(wildcards)
        names = ["validate.json", "measure.json", "profile.json"]
        return self._machine(plan) | {
            "story": self._run_file(plan.workload, plan.run, "plan.json"),
            "records": [self._file(plan, name) for name in names],
        }

    def analyse_inputs(self, wildcards: Any) -> Inputs:
        """Every record of the run."""
        run = self._find_run(wildcards.workload, wildcards.run)
        files = [self._file(plan, name) for plan in run.variants for name in _records_of(plan)]
        return self._machine(run.variants[0]) | {
            "story": self._run_file(wildcards.workload, wildcards.run, "plan.json"),
            "records": files,
        }

    def report_inputs(self, wildcards: Any) -> Inputs:
        """What was judged, and the profiles and gates that the pages show."""
        names = ["plan.json", "analyse.json", "ledger.json", "summary.json"]
        return {"analysis": [self._run_file(wildcards.workload, wildcards.run, name) for name in names]}

    def index_inputs(self) -> list[Any]:
        """What was judged of every planned run; its pages have to be there, and their age tells nothing new."""
        runs = [run.run_plan for run in self.planned]
        pages = [self.layout.relative(self.layout.report(run.workload, run.run) / "index.html") for run in runs]
        judged = [self._run_file(run.workload, run.run, "analyse.json") for run in runs]
        return [*judged, *(ancient(page) for page in pages)]

    def targets(self) -> list[str]:
        """The indexes, and every record: one that was deleted is made again, although what was made from it is there."""
        records = [
            self._file(plan, name) for run in self.planned for plan in run.variants for name in _records_of(plan)
        ]
        return ["reports/index.html", "reports/index.md", *records]

    def _base(self, plan: VariantPlan, record: str) -> Inputs:
        prepared = self._run_file(plan.workload, plan.run, "prepare.json")
        machine = self.layout.relative(self.layout.machine(plan.device))
        return {"plan": self._file(plan, "plan.json"), "prepared": self._settle(plan, record, [prepared, machine])}

    def _settle(self, plan: VariantPlan, record: str, inputs: list[str]) -> list[Any]:
        """Inputs whose age does not matter, while the record is of this plan.

        Snakemake (9.27) does not look at the plan of a job below one that runs, and an ancient input does not start the
        job either: what is out of date has to be started by the job above it.
        """
        made_from = split_plan(plan)[0] if record in ("validate.json", "measure.json") else plan
        path = self.layout.records(plan.workload, plan.run, plan.variant) / record
        return [ancient(name) for name in inputs] if is_made_from(path, made_from) else list(inputs)

    def _machine(self, plan: VariantPlan) -> Inputs:
        prepared = self._run_file(plan.workload, plan.run, "prepare.json")
        return {"machine": self.layout.relative(self.layout.machine(plan.device)), "prepared": prepared}

    def _find_run(self, workload: str, run: str) -> PlannedRun:
        for planned in self.planned:
            if (planned.run_plan.workload, planned.run_plan.run) == (workload, run):
                return planned
        raise ValueError(f"{workload}/{run} is not in the configuration of this machine")

    def _find(self, wildcards: Any) -> VariantPlan:
        for plan in self._find_run(wildcards.workload, wildcards.run).variants:
            if plan.variant == wildcards.variant:
                return plan
        raise ValueError(f"{wildcards.workload}/{wildcards.run} has no variant {wildcards.variant}")

    def _file(self, plan: VariantPlan, name: str) -> str:
        return self.layout.relative(self.layout.records(plan.workload, plan.run, plan.variant) / name)

    def _files(self, plan: VariantPlan, variants: Any, name: str) -> list[str]:
        folder = self.layout.run(plan.workload, plan.run)
        return [self.layout.relative(folder / variant / name) for variant in variants]

    def _run_file(self, workload: str, run: str, name: str) -> str:
        return self.layout.relative(self.layout.run(workload, run) / name)


def _records_of(plan: VariantPlan) -> list[str]:
    """The records that a variant of this kind gets."""
    names = ["plan.json", "measure.json"]
    if plan.kind is not Kind.CONTROL:
        names.append("validate.json")
    if plan.kind in (Kind.BASELINE, Kind.PHASE):
        names += ["profile.json", "analyse.json"]
    if plan.exporters:
        names.append("export.json")
    return names


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
