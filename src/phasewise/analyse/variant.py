"""Analyse one variant from its own records: what holds it back, and what its children should gain."""

from __future__ import annotations

from typing import TypeVar

from phasewise.analyse.compare import Key, estimate_all
from phasewise.analyse.diagnose import diagnose, split_step, suggest
from phasewise.analyse.evidence import Evidence
from phasewise.analyse.floor import floor_fraction
from phasewise.analyse.predict import open_phases, predict_children
from phasewise.analyse.shelf import Shelf
from phasewise.analyse.verdicts import step_floor
from phasewise.records.analyse import CaseAnalysis, Prediction, VariantAnalysis
from phasewise.records.base import Record, Seconds
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.store import digest

R = TypeVar("R", bound=Record)
# fact of a profile that was not taken at the shape of its case
PROFILED_AT = "profiled_at"


def analyse_variant(
    plan: VariantPlan,
    run_plan: RunPlan,
    machine: Machine,
    prepared: Prepared | None,
    *,
    measurement: Measurement | None,
    profile: Profile | None,
    validation: Validation | None,
) -> VariantAnalysis:
    """Findings in every case, and predictions for the phases built on this variant; reads no record of any other."""
    shelf = Shelf(
        run_plan=run_plan,
        plans={plan.variant: plan},
        machine=machine,
        prepared=prepared,
        measurements=_only(plan.variant, measurement),
        profiles=_only(plan.variant, profile),
        validations=_only(plan.variant, validation),
    )
    times = {key: ratio.estimate for key, ratio in estimate_all(shelf).times.items()}
    made_from = tuple(digest(record) for record in (measurement, profile, validation) if record is not None)
    cases: list[CaseAnalysis] = []
    predictions: list[Prediction] = []
    for planned in plan.cases:
        analysis, predicted = _analyse_case(shelf, plan.variant, planned.case, times, made_from)
        cases.append(analysis)
        predictions += predicted
    return VariantAnalysis(
        workload=plan.workload, run=plan.run, variant=plan.variant, cases=tuple(cases), predictions=tuple(predictions)
    )


def _analyse_case(
    shelf: Shelf, variant: str, case: str, times: dict[Key, Seconds], made_from: tuple[str, ...]
) -> tuple[CaseAnalysis, tuple[Prediction, ...]]:
    step = times.get((case, variant))
    floor = step_floor(shelf, variant, case)
    profile = shelf.profile(variant, case)
    # a slow baseline is profiled at a smaller shape, of which the declared work is not known
    is_smaller = profile is not None and PROFILED_AT in profile.facts
    planned, arm = shelf.planned(variant, case), shelf.own_arm(variant, case)
    evidence = Evidence(
        profile=profile,
        machine=shelf.machine,
        work=None if is_smaller else shelf.work(case),
        floor=None if is_smaller else floor,
        step_s=None if is_smaller else step,
        pools=split_step(profile, None if is_smaller else step, cuda=shelf.machine.kind == "cuda"),
        failure=arm.failure if arm is not None else None,
        memory_limit_bytes=planned.memory_limit_bytes if planned is not None else None,
        peak_memory_bytes=arm.peak_memory_bytes if arm is not None else None,
    )
    findings = suggest(diagnose(evidence), open_phases(shelf.run_plan, variant, case))
    analysis = CaseAnalysis(
        case=case,
        findings=findings,
        floor_s=floor.seconds if floor is not None else None,
        floor_fraction=floor_fraction(floor, step) if floor is not None and step is not None else None,
        floor_kind=floor.kind if floor is not None else "",
    )
    return analysis, predict_children(shelf.run_plan, variant, case, findings, made_from)


def _only(variant: str, record: R | None) -> dict[str, R]:
    return {} if record is None else {variant: record}
