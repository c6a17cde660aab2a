"""All records of one run, and where to find one; a record that is missing is a hole, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phasewise.model.ratios import find_arm
from phasewise.records.analyse import CaseAnalysis, Prediction, VariantAnalysis
from phasewise.records.export import Export
from phasewise.records.machine import Machine
from phasewise.records.measure import Arm, CaseMeasurement, Measurement
from phasewise.records.plan import Kind, PlannedCase, RunPlan, StoryPhase, StoryVariant, VariantPlan
from phasewise.records.prepare import CaseWork, Prepared
from phasewise.records.profile import CaseProfile, Profile
from phasewise.records.validate import CaseValidation, Validation


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """The records of a run by variant."""

    run_plan: RunPlan
    plans: Mapping[str, VariantPlan]
    machine: Machine
    prepared: Prepared | None
    validations: Mapping[str, Validation] = field(default_factory=dict)
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    exports: Mapping[str, Export] = field(default_factory=dict)
    analyses: Mapping[str, VariantAnalysis] = field(default_factory=dict)

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return next(row.variant for row in self.run_plan.variants if row.kind is Kind.BASELINE)

    def row(self, variant: str) -> StoryVariant:
        return next(row for row in self.run_plan.variants if row.variant == variant)

    def phase(self, variant: str) -> StoryPhase | None:
        """The story of the phase that ends in `variant`; None for the baseline, ablations, controls and peers."""
        return next((phase for phase in self.run_plan.phases if phase.variant == variant), None)

    def rows_in(self, case: str, *kinds: Kind) -> list[StoryVariant]:
        """Rows of these kinds that apply to `case`, in the order in which they are told."""
        return [row for row in self.run_plan.variants if row.kind in kinds and case in row.cases]

    def planned(self, variant: str, case: str) -> PlannedCase | None:
        plan = self.plans.get(variant)
        return None if plan is None else next((planned for planned in plan.cases if planned.case == case), None)

    def parent(self, variant: str, case: str) -> str | None:
        """What the plan compares `variant` with in `case`."""
        planned = self.planned(variant, case)
        return planned.parent if planned is not None else self.row(variant).parent

    def ancestors(self, variant: str, case: str) -> tuple[str, ...]:
        """Nearest first."""
        planned = self.planned(variant, case)
        return planned.ancestors if planned is not None else self.row(variant).ancestors

    def validation(self, variant: str, case: str) -> CaseValidation | None:
        record = self.validations.get(variant)
        return None if record is None else next((found for found in record.cases if found.case == case), None)

    def measurement(self, variant: str, case: str) -> CaseMeasurement | None:
        record = self.measurements.get(variant)
        return None if record is None else next((found for found in record.cases if found.case == case), None)

    def profile(self, variant: str, case: str) -> CaseProfile | None:
        record = self.profiles.get(variant)
        return None if record is None else next((found for found in record.cases if found.case == case), None)

    def analysis(self, variant: str, case: str) -> CaseAnalysis | None:
        record = self.analyses.get(variant)
        return None if record is None else next((found for found in record.cases if found.case == case), None)

    def work(self, case: str) -> CaseWork | None:
        return find_work(self.prepared, case)

    def own_arm(self, variant: str, case: str) -> Arm | None:
        """The arm that is the variant itself, in its own measurement."""
        measured = self.measurement(variant, case)
        return None if measured is None else find_arm(measured, "variant")

    def predictions(self) -> list[Prediction]:
        return [prediction for record in self.analyses.values() for prediction in record.predictions]

    def is_here(self, variant: str) -> bool:
        """Whether the variant was measured on this machine; records of two machines are never compared."""
        record = self.measurements.get(variant)
        return record is None or record.machine == self.machine.identity


def find_work(prepared: Prepared | None, case: str) -> CaseWork | None:
    """The declared work of one case."""
    return None if prepared is None else next((work for work in prepared.work if work.case == case), None)


def find_parent_arm(measured: CaseMeasurement) -> Arm | None:
    """What the variant is compared with: its parent, the twin of a control, or the baseline where nothing else is there."""
    for name in ("parent", "twin", "baseline"):
        arm = find_arm(measured, name)
        if arm is not None:
            return arm
    return None
