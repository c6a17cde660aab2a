"""Records that should be there and are not, or can't be read."""

from __future__ import annotations

from phasewise.records.analyse import Analysis, VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.export import Export
from phasewise.records.ledger import Ledger
from phasewise.records.machine import Machine
from phasewise.records.measure import ControlMeasurement, HeadlineMeasurement
from phasewise.records.plan import Kind, RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.run import Run


def list_holes(run: Run) -> tuple[str, ...]:
    """A sentence for each record that should be there and is not, or can't be read."""
    if run.layout is None:
        return ()
    # those that not every run or variant has are told where they can't be read
    wanted: list[tuple[type[Record], str, bool]] = [(RunPlan, "", True), (Analysis, "", True), (Ledger, "", False)]
    wanted += [(Prepared, "", True)]
    # that which the run was judged on stands in its analysis
    wanted += [(Machine, "", True)] if run.analysis is None or run.analysis.machine is None else []
    for held in run.variants:
        row = run.rows.get(held.name)
        gated = row is not None and row.kind in (Kind.BASELINE, Kind.PHASE)
        wanted += [(VariantPlan, held.name, True), (Validation, held.name, gated)]
        wanted += [(kind, held.name, False) for kind in (Profile, Export, VariantAnalysis)]
    wanted += [(kind, case, False) for case in run.plan.cases for kind in (HeadlineMeasurement, ControlMeasurement)]
    told = []
    for kind, subject, must in wanted:
        if run.find(kind, subject) is None and (must or (kind, subject) in run.unreadable):
            missing = f"{run.layout.relative(run.path(kind, subject))}: not there yet"
            told.append(run.unreadable.get((kind, subject), missing))
    return tuple(told)
