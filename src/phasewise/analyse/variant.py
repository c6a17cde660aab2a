"""Analyse one variant from its own records: what holds it back, and what its children should gain."""

from __future__ import annotations

from phasewise.analyse.compare import Key, estimate_all
from phasewise.analyse.diagnose import diagnose, split_step, suggest
from phasewise.analyse.evidence import Evidence
from phasewise.analyse.floor import floor_fraction
from phasewise.analyse.predict import open_phases, predict_children
from phasewise.analyse.verdicts import step_floor
from phasewise.records.analyse import CaseAnalysis, Prediction, VariantAnalysis
from phasewise.records.base import Seconds
from phasewise.records.plan import VariantPlan
from phasewise.run import Run
from phasewise.store import digest

# fact of a profile that was not taken at the shape of its case
PROFILED_AT = "profiled_at"


def analyse_variant(run: Run, variant: str) -> VariantAnalysis:
    """Findings in every case, and predictions for the phases built on this variant; reads no record of any other."""
    own, plan = run[variant], run.need(VariantPlan, variant)
    made = [record for record in (own.measure, own.profile, own.validation) if record is not None]
    made_from = tuple(digest(record) for record in made)
    shared = [record for record in (run.plan, run.machine, run.prepared, plan) if record is not None]
    run = Run(run.workload, run.name, [*shared, *made])
    times = {key: ratio.estimate for key, ratio in estimate_all(run).times.items()}
    cases: list[CaseAnalysis] = []
    predictions: list[Prediction] = []
    for planned in plan.cases:
        analysis, predicted = _analyse_case(run, variant, planned.case, times, made_from)
        cases.append(analysis)
        predictions += predicted
    return VariantAnalysis(
        workload=run.workload, run=run.name, variant=variant, cases=tuple(cases), predictions=tuple(predictions)
    )


def _analyse_case(
    run: Run, variant: str, case: str, times: dict[Key, Seconds], made_from: tuple[str, ...]
) -> tuple[CaseAnalysis, tuple[Prediction, ...]]:
    step = times.get((case, variant))
    floor = step_floor(run, variant, case)
    profile = run[variant].profiled(case)
    # a slow baseline is profiled at a smaller shape, of which the declared work is not known
    is_smaller = profile is not None and PROFILED_AT in profile.facts
    planned, arm = run[variant].planned(case), run[variant].arm(case)
    evidence = Evidence(
        profile=profile,
        machine=run.machine,
        work=None if is_smaller else run.work(case),
        floor=None if is_smaller else floor,
        step_s=None if is_smaller else step,
        pools=split_step(profile, None if is_smaller else step, cuda=run.machine.kind == "cuda"),
        failure=arm.failure if arm is not None else None,
        memory_limit_bytes=planned.memory_limit_bytes if planned is not None else None,
        peak_memory_bytes=arm.peak_memory_bytes if arm is not None else None,
    )
    findings = suggest(diagnose(evidence), open_phases(run.plan, variant, case))
    analysis = CaseAnalysis(
        case=case,
        findings=findings,
        floor_s=floor.seconds if floor is not None else None,
        floor_fraction=floor_fraction(floor, step) if floor is not None and step is not None else None,
        floor_kind=floor.kind if floor is not None else "",
    )
    return analysis, predict_children(run.plan, variant, case, findings, made_from)
