"""What came of a job, in words: read from the record that it made."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.model.layout import Layout
from phasewise.model.seconds import format_seconds
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.export import Export
from phasewise.records.measure import CaseMeasurement, ControlMeasurement, HeadlineMeasurement, Measurement
from phasewise.records.predict import Predicted
from phasewise.records.prepare import Prepared
from phasewise.records.profile import CaseProfile, Profile
from phasewise.records.validate import CaseValidation, Validation
from phasewise.run import Run
from phasewise.stages import STAGES


def describe_job(layout: Layout, rule: str, wildcards: Mapping[str, str]) -> str:
    """The outcome of a job that ended well; "done" where its rule makes no record."""
    stage = STAGES.get(name_stage(rule))
    if stage is None or "workload" not in wildcards:
        return "done"
    run = Run(wildcards["workload"], wildcards["run"], layout=layout)
    subject = "" if stage.of == "run" else wildcards.get(stage.of)
    # without a variant a whole run is judged
    record = None if subject is None else run.find(stage.record, subject)
    return "done" if record is None else describe_outcome(record)


def name_stage(rule: str) -> str:
    """The stage of a rule; the rule that judges one variant has a longer name than the one that judges a run."""
    return rule.removesuffix("_variant")


def describe_outcome(record: Record) -> str:
    """A few words a case."""
    match record:
        case Prepared():
            return f"done in {format_seconds(record.seconds)}" if record.failure is None else record.failure.message
        case Validation():
            return _join({one.case: _tell_gate(one) for one in record.cases})
        case Measurement():
            return _join({one.case: _tell_rounds(one, "parent", "its parent") for one in record.cases})
        case HeadlineMeasurement():
            return _tell_rounds(record.measured, "baseline", "the baseline")
        case ControlMeasurement():
            return _tell_rounds(record.measured, "parent", "itself")
        case Predicted():
            told = {one.case: f"{one.low:.3g} to {one.high:.3g}x" for one in record.predictions if one.low and one.high}
            return f"should gain {_join(told)}" if told else "predicts nothing"
        case Profile():
            return _join({one.case: _tell_profile(one) for one in record.cases})
        case Export():
            return ", ".join(f"{one.format} {one.status}" for one in record.results) or "nothing to export"
        case VariantAnalysis():
            found = {
                one.case: ", ".join(found.finding for found in one.findings if found.outcome == "found")
                for one in record.cases
            }
            return _join({case: names or "nothing found" for case, names in found.items()})
    return "done"


def _join(told: Mapping[str, str]) -> str:
    """The words alone where there is one case."""
    return next(iter(told.values())) if len(told) == 1 else "; ".join(f"{case} {words}" for case, words in told.items())


def _tell_gate(found: CaseValidation) -> str:
    worst = [error.worst for error in found.errors if error.worst is not None]
    if found.failure is not None:
        return found.failure.message
    if found.message:
        return f"{found.outcome}: {found.message}"
    return f"right, off by at most {max(worst):.2g} of what is allowed" if worst else str(found.outcome)


def _tell_rounds(found: CaseMeasurement, arm: str, name: str) -> str:
    # numpy takes half as long to import as a command does to start, and few need it
    from phasewise.model.ratios import paired_log_ratios
    from phasewise.stats import estimate_ratio

    if found.skipped is not None:
        return f"not timed: {found.skipped.message}"
    failure = next((arm.failure for arm in found.arms if arm.failure is not None), None)
    if failure is not None:
        return failure.message
    logs = paired_log_ratios(found, arm, "variant")
    if not logs:
        return f"{len(found.rounds)} rounds" if found.rounds else found.stopped or "no rounds"
    ratio = estimate_ratio(logs)
    return f"{ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}] over {name}, {len(found.rounds)} rounds"


def _tell_profile(found: CaseProfile) -> str:
    if found.failure is not None:
        return found.failure.message
    longest = next(iter(found.kernels), None)
    return f"{found.steps} steps traced" + (f", mostly {longest.name}" if longest else "")
