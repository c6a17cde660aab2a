"""All records of one run, read once; what is missing or can't be read is a hole with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from phasewise import store
from phasewise.model.freshness import Standing, judge_run
from phasewise.model.layout import VARIANT_NAME, Layout
from phasewise.records.analyse import Analysis, CaseAnalysis, CaseResult, Ledger, Row, VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.errors import RecordError
from phasewise.records.export import Export
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind, RunPlan, StoryPhase, StoryVariant, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import CaseProfile, Profile
from phasewise.records.validate import CaseValidation, Validation

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class VariantRecords:
    """What the stages wrote about one variant."""

    variant: str
    plan: VariantPlan | None = None
    validation: Validation | None = None
    profile: Profile | None = None
    export: Export | None = None
    analysis: VariantAnalysis | None = None
    # the raw samples are not read here: the analysis holds what they say
    measured: bool = False

    def validated(self, case: str) -> CaseValidation | None:
        return next((one for one in self.validation.cases if one.case == case), None) if self.validation else None

    def profiled(self, case: str) -> CaseProfile | None:
        return next((one for one in self.profile.cases if one.case == case), None) if self.profile else None

    def analysed(self, case: str) -> CaseAnalysis | None:
        return next((one for one in self.analysis.cases if one.case == case), None) if self.analysis else None


@dataclass(frozen=True)
class RunRecords:
    """What all stages wrote about one run."""

    workload: str
    run: str
    plan: RunPlan | None = None
    analysis: Analysis | None = None
    ledger: Ledger | None = None
    prepared: Prepared | None = None
    machine: Machine | None = None
    variants: dict[str, VariantRecords] = field(default_factory=dict)
    # None where nothing was planned
    standing: Standing | None = None
    # one sentence for each record that should be there and is not
    holes: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        return self.analysis.cases if self.analysis else ()

    @property
    def phases(self) -> tuple[StoryPhase, ...]:
        return self.plan.phases if self.plan else ()

    @property
    def device(self) -> str:
        return self.plan.device if self.plan else self.run.partition("-")[2]

    def story(self, variant: str | None) -> StoryPhase | None:
        return next((phase for phase in self.phases if phase.variant == variant), None)

    def planned(self, variant: str) -> StoryVariant | None:
        return next((one for one in (self.plan.variants if self.plan else ()) if one.variant == variant), None)

    def of(self, variant: str | None) -> VariantRecords:
        """Records of `variant`; empty ones where it has none."""
        return self.variants.get(variant or "", VariantRecords(variant or ""))


def row_of(case: CaseResult, variant: str | None) -> Row | None:
    """The row of `variant` in `case`."""
    return next((row for row in case.rows if row.variant == variant), None)


def baseline_of(case: CaseResult) -> Row | None:
    """The row that everything is compared with in the end."""
    return next((row for row in case.rows if row.kind == Kind.BASELINE), None)


def kept_rows(case: CaseResult) -> tuple[Row, ...]:
    """The baseline and the kept phases, as they stack."""
    return tuple(row for row in case.rows if row.kind == Kind.BASELINE or (row.kind == Kind.PHASE and row.kept))


def read_run(root: Path, workload: str, run: str) -> RunRecords:
    """Every record of `run`, and a sentence for each that is missing."""
    layout = Layout(root)
    folder = layout.run(workload, run)
    holes: list[str] = []

    def read(path: Path, kind: type[R], *, wanted: bool = True) -> R | None:
        try:
            record = store.read_if_there(path, kind)
        except RecordError as error:
            holes.append(str(error).replace(str(root), "").lstrip("/"))
            return None
        if record is None and wanted:
            holes.append(f"{path.relative_to(root).as_posix()}: not there yet")
        return record

    plan = read(folder / "plan.json", RunPlan)
    device = plan.device if plan else run.partition("-")[2]
    # a name from a record becomes a path only if it is safe as one
    names = [one.variant for one in plan.variants if VARIANT_NAME.fullmatch(one.variant)] if plan else []
    names += sorted(path.name for path in folder.glob("*/") if path.name not in names) if folder.is_dir() else []
    gated = {one.variant for one in plan.variants if one.kind in (Kind.BASELINE, Kind.PHASE)} if plan else set()
    analysis = read(folder / "analyse.json", Analysis)
    judged_on = analysis.machine if analysis is not None else None
    return RunRecords(
        workload=workload,
        run=run,
        plan=plan,
        analysis=analysis,
        ledger=read(folder / "ledger.json", Ledger, wanted=False),
        prepared=read(folder / "prepare.json", Prepared),
        machine=judged_on or read(layout.machine(device), Machine),
        variants={
            name: VariantRecords(
                name,
                plan=read(folder / name / "plan.json", VariantPlan),
                # controls are not validated again, and a skipped variant has no profile or export of its own
                validation=read(folder / name / "validate.json", Validation, wanted=name in gated),
                profile=read(folder / name / "profile.json", Profile, wanted=False),
                export=read(folder / name / "export.json", Export, wanted=False),
                analysis=read(folder / name / "analyse.json", VariantAnalysis, wanted=False),
                measured=(folder / name / "measure.json").is_file(),
            )
            for name in names
        },
        standing=judge_run(plan, root) if plan is not None else None,
        holes=tuple(holes),
    )
