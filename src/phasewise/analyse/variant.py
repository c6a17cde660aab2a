"""Analyse one variant from its own records: what holds it back."""

from __future__ import annotations

from phasewise.analyse.compare import estimate_all
from phasewise.analyse.diagnose import find_findings
from phasewise.analyse.floor import floor_fraction, step_floor
from phasewise.analyse.judging import digest_judging
from phasewise.records.analyse import CaseAnalysis, VariantAnalysis
from phasewise.records.base import Seconds
from phasewise.records.plan import VariantPlan
from phasewise.run import Run


def analyse_variant(run: Run, variant: str) -> VariantAnalysis:
    """Findings in every case; reads no record of any other variant. Of an analysis on record it keeps the predictions, which can't be made again."""
    recorded = run.find(VariantAnalysis, variant)
    own, plan = run[variant], run.need(VariantPlan, variant)
    made = (run.plan, run.machine, run.prepared, plan, own.measure, own.profile, own.validation)
    run = Run(run.workload, run.name, [record for record in made if record is not None])
    times = {key: ratio.estimate for key, ratio in estimate_all(run).times.items()}
    return VariantAnalysis(
        workload=run.workload,
        run=run.name,
        variant=variant,
        judged_by=digest_judging(run),
        cases=tuple(
            _analyse_case(run, variant, planned.case, times.get((planned.case, variant))) for planned in plan.cases
        ),
        predictions=recorded.predictions if recorded is not None else (),
    )


def _analyse_case(run: Run, variant: str, case: str, step: Seconds | None) -> CaseAnalysis:
    floor = step_floor(run, variant, case)
    return CaseAnalysis(
        case=case,
        findings=find_findings(run, variant, case, step),
        floor_s=floor.seconds if floor is not None else None,
        floor_fraction=floor_fraction(floor, step) if floor is not None and step is not None else None,
        floor_kind=floor.kind if floor is not None else "",
    )
