"""Judge a whole run: verdicts, targets, risks, alarms and the next steps, computed once for everything that shows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phasewise.analyse.alarms import find_machines, raise_alarms
from phasewise.analyse.compare import Key, estimate_all
from phasewise.analyse.control import set_limits, tell_controls
from phasewise.analyse.ledger import score_predictions
from phasewise.analyse.risks import settle_risks
from phasewise.analyse.rows import Told, make_peer_row, make_row
from phasewise.analyse.scale import tell_extrapolation
from phasewise.analyse.shelf import Shelf
from phasewise.analyse.targets import TOLD, Judged, join_levels, settle_target
from phasewise.analyse.verdicts import judge_all, step_floor
from phasewise.records.analyse import (
    Analysis,
    CaseResult,
    Ledger,
    NextStep,
    PartResult,
    PeerRow,
    TargetResult,
    VariantAnalysis,
)
from phasewise.records.base import Interval
from phasewise.records.export import Export
from phasewise.records.finding import FindingId
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind, RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Level, Reason, Status, Verdict

# rows of the tables; peers and controls have tables of their own
TABLED = (Kind.BASELINE, Kind.PHASE, Kind.WITHOUT, Kind.ONLY)
# what has these is no advice any more
TRIED_IN_VAIN = frozenset({Status.SAME, Status.SLOWER, Status.INVALID, Status.FAILED})


def analyse_run(
    run_plan: RunPlan,
    plans: Mapping[str, VariantPlan],
    machine: Machine,
    prepared: Prepared | None,
    *,
    validations: Mapping[str, Validation],
    measurements: Mapping[str, Measurement],
    profiles: Mapping[str, Profile],
    exports: Mapping[str, Export],
    analyses: Mapping[str, VariantAnalysis],
) -> tuple[Analysis, Ledger]:
    """All that the report shows, and the ledger of predictions; mappings are by variant, and what is missing is a hole."""
    shelf = Shelf(
        run_plan=run_plan, plans=plans, machine=machine, prepared=prepared, validations=validations,
        measurements=measurements, profiles=profiles, exports=exports, analyses=analyses,
    )  # fmt: skip
    estimates = set_limits(shelf, estimate_all(shelf))
    verdicts = judge_all(shelf, estimates)
    predictions = {(found.case, found.variant): found for found in shelf.predictions()}
    told = Told(shelf=shelf, estimates=estimates, verdicts=verdicts, predictions=predictions, levels={})
    peers = {case: _peer_rows(told, case) for case in run_plan.cases}
    stack = {case: _find_end(shelf, verdicts, case) for case in run_plan.cases}
    parts = {(case, part): _find_end(shelf, verdicts, case, part) for case in run_plan.cases for part in run_plan.parts}
    judged = Judged(shelf=shelf, estimates=estimates, verdicts=verdicts, peers=peers, stack=stack, parts=parts)
    targets = tuple(settle_target(judged, target) for target in run_plan.targets)
    told = Told(
        shelf=shelf, estimates=estimates, verdicts=verdicts, predictions=predictions, levels=_phase_levels(targets)
    )
    cases = tuple(_tell_case(told, judged, case, targets) for case in run_plan.cases)
    tops = [shelf.validation(name, case) for case, name in stack.items() if name is not None]
    analysis = Analysis(
        workload=run_plan.workload,
        run=run_plan.run,
        commits=_commits(shelf),
        machines=find_machines(shelf),
        machine=machine,
        cases=cases,
        targets=targets,
        risks=settle_risks(run_plan.risks, tops),
        next_steps=_next_steps(shelf, verdicts, stack),
        alarms=raise_alarms(shelf, verdicts, cases, targets),
    )
    return analysis, score_predictions(run_plan.workload, run_plan.run, predictions.values(), _outcomes(told))


def _outcomes(told: Told) -> dict[Key, Interval]:
    """Measured speed-ups over the parent that was predicted from; over another ancestor they say nothing of the prediction."""
    found = {}
    for key, prediction in told.predictions.items():
        comparison, verdict = told.estimates.comparisons.get(key), told.verdicts.get(key)
        is_same = comparison is None or comparison.against == prediction.parent
        if verdict is not None and verdict.over_parent is not None and is_same:
            found[key] = verdict.over_parent
    return found


def _tell_case(told: Told, judged: Judged, case: str, targets: tuple[TargetResult, ...]) -> CaseResult:
    shelf = told.shelf
    work, bound = shelf.work(case), step_floor(shelf, shelf.baseline, case)
    control, baseline_control = tell_controls(shelf, told.estimates, case)
    top = judged.stack[case]
    own = [target for target in targets if target.case == case and target.part is None and target.phase is None]
    rows = [
        row for row in shelf.run_plan.variants if row.kind in TABLED and (case in row.cases or row.kind is Kind.PHASE)
    ]
    end = _judge_end(told.verdicts, case, top)
    return CaseResult(
        case=case,
        items=work.items if work is not None else 1.0,
        item=work.item if work is not None else "items",
        floor_s=bound.seconds if bound is not None else None,
        floor_kind=bound.kind if bound is not None else "",
        rows=tuple(make_row(told, row, case) for row in rows),
        stack=top,
        stack_speedup=end.over_baseline if end is not None else None,
        stack_level=join_levels(own),
        stack_status=end.baseline_status if end is not None else None,
        stack_reason=end.baseline_reason if end is not None else Reason.NONE,
        control=control,
        baseline_control=baseline_control,
        extrapolation=tell_extrapolation(shelf, case, work.items) if work is not None else None,
        peers=tuple(judged.peers[case]),
        parts=tuple(_tell_part(judged, case, part, targets) for part in shelf.run_plan.parts),
    )


def _tell_part(judged: Judged, case: str, part: str, targets: tuple[TargetResult, ...]) -> PartResult:
    variant = judged.parts[(case, part)]
    own = [target for target in targets if target.case == case and target.part == part]
    end = _judge_end(judged.verdicts, case, variant)
    return PartResult(
        part=part,
        variant=variant,
        speedup=end.over_baseline if end is not None else None,
        level=join_levels(own),
        status=end.baseline_status if end is not None else None,
    )


def _find_end(shelf: Shelf, verdicts: Mapping[Key, Verdict], case: str, part: str | None = None) -> str | None:
    """The last kept variant of the stack (of `part`) whose numbers hold; the baseline is the end of an empty stack."""
    top = shelf.run_plan.stack.get(case)
    if top is None:
        return None
    for variant in (top, *shelf.ancestors(top, case)):
        phase = shelf.phase(variant)
        is_part = part is None or (phase is not None and phase.part == part)
        if is_part and verdicts[(case, variant)].status in TOLD:
            return variant
    return None


def _judge_end(verdicts: Mapping[Key, Verdict], case: str, variant: str | None) -> Verdict | None:
    """The verdict of the end of a stack, if it has a speed-up over the baseline; the baseline's own is 1."""
    if variant is None:
        return None
    verdict = verdicts[(case, variant)]
    if verdict.status is Status.BASELINE:
        one = Interval(estimate=1.0, low=1.0, high=1.0)
        return msgspec.structs.replace(verdict, over_baseline=one, baseline_status=Status.BASELINE)
    return verdict if verdict.over_baseline is not None else None


def _peer_rows(told: Told, case: str) -> tuple[PeerRow, ...]:
    return tuple(make_peer_row(told, row, case) for row in told.shelf.rows_in(case, Kind.PEER))


def _phase_levels(targets: tuple[TargetResult, ...]) -> dict[tuple[str, str], Level]:
    """(case, phase) -> the level that all targets of the phase reach."""
    keys = dict.fromkeys((target.case, target.phase) for target in targets if target.phase is not None)
    return {
        (case, phase): join_levels([target for target in targets if (target.case, target.phase) == (case, phase)])
        for case, phase in keys
        if phase is not None
    }


def _commits(shelf: Shelf) -> tuple[str, ...]:
    found = {record.commit for record in shelf.measurements.values()}
    found |= {record.commit for record in shelf.profiles.values()}
    found |= {record.commit for record in shelf.validations.values()}
    found |= {record.commit for record in shelf.exports.values()}
    return tuple(sorted(found - {""}))


def _next_steps(shelf: Shelf, verdicts: Mapping[Key, Verdict], stack: Mapping[str, str | None]) -> tuple[NextStep, ...]:
    """What the end of each stack suffers from, the most promising first; near the roof the advice is to stop."""
    steps: list[NextStep] = []
    for case, variant in stack.items():
        analysis = shelf.analysis(variant, case) if variant is not None else None
        found = [finding for finding in analysis.findings if finding.outcome == "found"] if analysis else []
        roof = [finding for finding in found if finding.finding == FindingId.NEAR_THE_ROOF]
        ranked = roof or sorted(found, key=lambda finding: -(finding.gain.estimate if finding.gain else 1.0))
        tried = {
            phase.phase for phase in shelf.run_plan.phases if verdicts[(case, phase.variant)].status in TRIED_IN_VAIN
        }
        steps += [
            NextStep(
                case=case,
                finding=finding.finding,
                advice=finding.advice,
                phase=None if finding.suggests in tried else finding.suggests,
                gain=finding.gain,
            )
            for finding in ranked
        ]
    return tuple(steps)
