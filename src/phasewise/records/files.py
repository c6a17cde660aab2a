"""Where the records of a run lie below its folder."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.records.analyse import Analysis, VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.export import Export
from phasewise.records.kept import Kept
from phasewise.records.ledger import Ledger
from phasewise.records.measure import ControlMeasurement, HeadlineMeasurement, Measurement
from phasewise.records.plan import CapturePlan, PreparePlan, RunPlan, VariantPlan
from phasewise.records.predict import Predicted
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation

# {} is what there is one record each of: a variant, which has a folder, or a case
FILES: Mapping[type[Record], str] = {
    RunPlan: "plan.json",
    PreparePlan: "prepare.plan.json",
    Prepared: "prepare.json",
    Analysis: "analyse.json",
    Ledger: "ledger.json",
    Kept: "files.json",
    HeadlineMeasurement: "headline.{}.json",
    ControlMeasurement: "control.{}.json",
    VariantPlan: "{}/plan.json",
    CapturePlan: "{}/capture.plan.json",
    Validation: "{}/validate.json",
    Predicted: "{}/predict.json",
    Measurement: "{}/measure.json",
    Profile: "{}/profile.json",
    Export: "{}/export.json",
    VariantAnalysis: "{}/analyse.json",
}
