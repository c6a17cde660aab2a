"""All records of one run: each is read when it is first asked for, and once."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from phasewise.model.arms import find_arm, take_headline, take_pair
from phasewise.model.layout import VARIANT_NAME, Layout
from phasewise.records.analyse import Analysis, CaseAnalysis, CaseResult, VariantAnalysis
from phasewise.records.base import CaseRecord, Record, StageRecord, find_case
from phasewise.records.errors import RecordError
from phasewise.records.export import Export
from phasewise.records.files import FILES
from phasewise.records.machine import Machine
from phasewise.records.measure import (
    Arm,
    CaseMeasurement,
    ControlMeasurement,
    HeadlineMeasurement,
    Measurement,
    SmallerMeasurement,
)
from phasewise.records.plan import CapturePlan, Kind, PlannedCase, PlannedPhase, PlannedVariant, RunPlan, VariantPlan
from phasewise.records.predict import Predicted
from phasewise.records.prepare import CaseWork, Prepared
from phasewise.records.profile import CaseProfile, Profile
from phasewise.records.validate import CaseValidation, Validation
from phasewise.store import digest_of, read, read_if_there

R = TypeVar("R", bound=Record)
# records that name the variant that they are of
OF_VARIANTS = (StageRecord, VariantPlan, VariantAnalysis, Predicted)


class Run:
    """The records of one run on disk, in memory, or some here and some there; one that is missing is None.

    A gate or a measurement that is not of the plan beside it is left out with a sentence: the graph would have made it again,
    so somebody put it there. With `forgiving`, as for pages, it is taken as it is, and a record that can't be read is a hole.
    """

    def __init__(
        self,
        workload: str,
        name: str,
        records: Iterable[Record] = (),
        *,
        layout: Layout | None = None,
        forgiving: bool = False,
    ) -> None:
        self.workload = workload
        self.name = name
        self.layout = layout
        self.forgiving = forgiving
        self._records: dict[tuple[type[Record], str], Record | None] = {}
        # a sentence for each record that was asked for and can't be read
        self.unreadable: dict[tuple[type[Record], str], str] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record, subject: str | None = None) -> None:
        """Take `record` for what is on record of `subject`; by default of the variant that it names, else of the run."""
        if subject is None:
            subject = record.variant if isinstance(record, OF_VARIANTS) else ""
            subject = record.case if isinstance(record, CaseRecord) else subject
        self._records[type(record), subject] = record

    @property
    def known(self) -> tuple[Record, ...]:
        """The records that were given or read so far."""
        return tuple(record for record in self._records.values() if record is not None)

    @cached_property
    def folder(self) -> Path:
        """Where its records lie; ValueError for a run that is in memory only."""
        if self.layout is None:
            raise ValueError(f"{self.workload}/{self.name} is in memory only")
        return self.layout.run(self.workload, self.name)

    def path(self, kind: type[Record], subject: str = "") -> Path:
        """Where that record lies; ValueError for a run that is in memory only."""
        if kind is Machine and self.layout is not None:
            return self.layout.machine(self.plan.device)
        return self.folder / FILES[kind].format(subject)

    def find(self, kind: type[R], subject: str = "") -> R | None:
        """The record of that kind, of the run or of a variant; RecordError where it can't be read."""
        key = (kind, subject)
        if key not in self._records:
            self._records[key] = self._read(kind, subject)
        return cast("R | None", self._records[key])

    def need(self, kind: type[R], subject: str = "") -> R:
        """The same, and RecordError where there is none."""
        found = self.find(kind, subject)
        return read(self.path(kind, subject), kind) if found is None else found

    def find_all(self, kind: type[R], subjects: Iterable[str] | None = None) -> dict[str, R]:
        """Records by subject, of all planned variants if none are named; without those that are missing."""
        names = self.rows if subjects is None else subjects
        return {name: found for name in names if (found := self.find(kind, name)) is not None}

    def _read(self, kind: type[R], subject: str) -> R | None:
        # a name from a record becomes a path only if it is safe as one
        if self.layout is None or ("{}" in FILES.get(kind, "") and not VARIANT_NAME.fullmatch(subject)):
            return None
        path = self.path(kind, subject)
        try:
            record = read_if_there(path, kind)
        except RecordError as error:
            if not self.forgiving:
                raise
            self.unreadable[kind, subject] = str(error).replace(str(self.layout.root), "").lstrip("/")
            return None
        if self.forgiving or not isinstance(record, Validation | Measurement | CaseRecord):
            return record
        made_from = record.plans if isinstance(record, CaseRecord) else {subject: record.plan}
        if any(plan != digest_of(self.path(VariantPlan, name)) for name, plan in made_from.items()):
            left_out = f"{path}: made from another plan, so it is left out; delete it and run the graph again"
            print(left_out, file=sys.stderr)
            return None
        return record

    @cached_property
    def plan(self) -> RunPlan:
        """The run's plan; an empty one where nothing is planned."""
        return self.find(RunPlan) or RunPlan(
            workload=self.workload, source="", run=self.name, size="", device=self.name.partition("-")[2], summary="", tier="",
            cases=(), parts=(), phases=(), variants=(), stack={},
        )  # fmt: skip

    @property
    def machine(self) -> Machine:
        """The machine that the run belongs to; RecordError where it is not on record."""
        return self.need(Machine)

    @property
    def prepared(self) -> Prepared | None:
        return self.find(Prepared)

    @property
    def analysis(self) -> Analysis | None:
        return self.find(Analysis)

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """What was judged of each case."""
        return self.analysis.cases if self.analysis is not None else ()

    def __getitem__(self, variant: str) -> VariantRecords:
        return VariantRecords(run=self, name=variant)

    @cached_property
    def rows(self) -> dict[str, PlannedVariant]:
        """What the plan tells of each variant, in order."""
        return {row.variant: row for row in self.plan.variants}

    @cached_property
    def phases(self) -> dict[str, PlannedPhase]:
        """The phase that ends in a variant; none ends in the baseline, an ablation, a control or a peer."""
        return {phase.variant: phase for phase in self.plan.phases}

    @property
    def variants(self) -> tuple[VariantRecords, ...]:
        """Those that are planned, then others of which something is on record."""
        others = [subject for kind, subject in self._records if FILES.get(kind, "").startswith("{}/")]
        if self.layout is not None:
            others = sorted(path.name for path in self.layout.run(self.workload, self.name).glob("*/"))
        return tuple(self[name] for name in dict.fromkeys((*self.rows, *others)))

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return next(name for name, row in self.rows.items() if row.kind is Kind.BASELINE)

    def rows_in(self, case: str, *kinds: Kind) -> list[PlannedVariant]:
        """Rows of these kinds that apply to `case`, in the order in which they are told."""
        return [row for row in self.plan.variants if row.kind in kinds and case in row.cases]

    def headline(self, case: str) -> CaseMeasurement | None:
        """Baseline, end of the stack and peers in the same rounds of this machine, where they were timed."""
        own = self[self.own_headline(case)]
        found = find_case(own.measure, case) if own.name and own.is_here else None
        return take_headline(found) if found is not None else self._find_here(HeadlineMeasurement, case)

    def own_headline(self, case: str) -> str:
        """The variant whose own rounds are those of the headline; "" where that has others, or none."""
        found = self.find(HeadlineMeasurement, case)
        return found.own_of if found is not None and found.machine == self.machine.identity else ""

    def smaller(self, case: str) -> tuple[SmallerMeasurement, ...]:
        """A slow baseline beside the end of the stack at the shapes that it can run, on this machine."""
        found = self.find(HeadlineMeasurement, case)
        return found.smaller if found is not None and found.machine == self.machine.identity else ()

    def control(self, case: str) -> CaseMeasurement | None:
        """The end of the stack beside itself, on this machine."""
        return self._find_here(ControlMeasurement, case)

    def _find_here(self, kind: type[HeadlineMeasurement | ControlMeasurement], case: str) -> CaseMeasurement | None:
        found = self.find(kind, case)
        is_here = found is not None and found.measured.rounds and found.machine == self.machine.identity
        return found.measured if found is not None and is_here else None

    def work(self, case: str) -> CaseWork | None:
        """The declared work of one case."""
        return next((work for work in (self.prepared.work if self.prepared else ()) if work.case == case), None)


@dataclass(frozen=True, kw_only=True)
class VariantRecords:
    """What is on record of one variant."""

    run: Run
    name: str

    @property
    def plan(self) -> VariantPlan | None:
        return self.run.find(VariantPlan, self.name)

    @property
    def validation(self) -> Validation | None:
        return self.run.find(Validation, self.name)

    @property
    def measure(self) -> Measurement | None:
        return self.run.find(Measurement, self.name)

    @property
    def profile(self) -> Profile | None:
        return self.run.find(Profile, self.name)

    @property
    def export(self) -> Export | None:
        return self.run.find(Export, self.name)

    @property
    def analysis(self) -> VariantAnalysis | None:
        return self.run.find(VariantAnalysis, self.name)

    @property
    def full_plan(self) -> VariantPlan:
        """The plan with what is to be captured and exported of it; raises RecordError."""
        plan = self.run.need(VariantPlan, self.name)
        if self.run.layout is None:  # a plan that was made is not split yet
            return plan
        captures = self.run.need(CapturePlan, self.name)
        return msgspec.structs.replace(
            plan, profilers=captures.profilers, exporters=captures.exporters, exported=captures.exported, nsight=captures.nsight
        )  # fmt: skip

    def planned(self, case: str) -> PlannedCase | None:
        return find_case(self.plan, case)

    def gate(self, case: str) -> CaseValidation | None:
        return find_case(self.validation, case)

    def measured(self, case: str) -> CaseMeasurement | None:
        """What it was timed in: its own rounds; of a peer those that it has in the headline, beside the end of the stack."""
        row, headline = self.run.rows.get(self.name), self.run.headline(case)
        is_peer = row is not None and row.kind is Kind.PEER
        view = take_pair(headline, "variant", self.name) if headline is not None and is_peer else None
        return find_case(self.measure, case) if view is None else view

    def profiled(self, case: str) -> CaseProfile | None:
        return find_case(self.profile, case)

    def analysed(self, case: str) -> CaseAnalysis | None:
        return find_case(self.analysis, case)

    def arm(self, case: str) -> Arm | None:
        """The arm that is the variant itself, in its own measurement."""
        measured = self.measured(case)
        return None if measured is None else find_arm(measured, "variant")

    def parent(self, case: str) -> str | None:
        """What the plan compares it with in `case`."""
        planned, row = self.planned(case), self.run.rows.get(self.name)
        return planned.parent if planned is not None else row.parent if row is not None else None

    def ancestors(self, case: str) -> tuple[str, ...]:
        """All of them, nearest first; a plan names the nearest only."""
        found: list[str] = []
        name = self.parent(case)
        while name is not None and name not in found:
            found.append(name)
            name = self.run[name].parent(case)
        return tuple(found)

    @property
    def is_here(self) -> bool:
        """Whether it was measured on this machine; records of two machines are never compared."""
        return self.measure is None or self.measure.machine == self.run.machine.identity
