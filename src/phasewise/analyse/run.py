"""Judge a whole run: verdicts, targets, risks, alarms and the next steps, computed once for everything that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from phasewise.analyse.alarms import find_machines, raise_alarms
from phasewise.analyse.compare import Key, estimate_all
from phasewise.analyse.control import set_limits, tell_controls
from phasewise.analyse.costs import tell_costs
from phasewise.analyse.experience import AUTHOR
from phasewise.analyse.floor import step_floor
from phasewise.analyse.gate import TOLD
from phasewise.analyse.ladder import build_ladder
from phasewise.analyse.ledger import find_predictions, score_predictions
from phasewise.analyse.next_steps import choose_next_steps
from phasewise.analyse.promises import settle_promises
from phasewise.analyse.risks import settle_risks
from phasewise.analyse.rows import Told, make_peer_row, make_row
from phasewise.analyse.scale import tell_smaller
from phasewise.analyse.targets import Judged, join_levels, settle_target
from phasewise.analyse.verdicts import find_doubts, judge_all
from phasewise.records.analyse import Analysis, CaseResult, PartResult, PeerRow, TargetResult
from phasewise.records.base import Interval
from phasewise.records.export import Export
from phasewise.records.ledger import Ledger
from phasewise.records.measure import Measurement
from phasewise.records.plan import Kind
from phasewise.records.predict import Prediction
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.run import Run

# rows of the tables; peers and controls have tables of their own
TABLED = (Kind.BASELINE, Kind.PHASE, Kind.WITHOUT, Kind.ONLY)


def analyse_run(run: Run) -> tuple[Analysis, Ledger]:
    """All that the report shows, and the ledger of predictions; a record that is missing is a hole."""
    estimates = set_limits(run, estimate_all(run))
    verdicts = judge_all(run, estimates)
    predictions = find_predictions(run)
    by_rule = {(one.case, one.variant): one for one in predictions if one.finding != AUTHOR}
    told = Told(run=run, estimates=estimates, verdicts=verdicts, predictions=by_rule, levels={}, targets=())
    peers = {case: _peer_rows(told, case) for case in run.plan.cases}
    stack = {case: _find_end(run, verdicts, case) for case in run.plan.cases}
    parts = {(case, part): _find_end(run, verdicts, case, part) for case in run.plan.cases for part in run.plan.parts}
    judged = Judged(run=run, estimates=estimates, verdicts=verdicts, peers=peers, stack=stack, parts=parts)
    targets = tuple(settle_target(judged, target) for target in run.plan.targets)
    told = replace(told, levels=_phase_levels(targets), targets=targets)
    cases = tuple(_tell_case(told, judged, case, targets) for case in run.plan.cases)
    tops = [run[name].gate(case) for case, name in stack.items() if name is not None]
    risks = settle_risks(run.plan.risks, tops, targets)
    analysis = Analysis(
        workload=run.workload,
        run=run.name,
        commits=_commits(run),
        machines=find_machines(run),
        machine=run.machine,
        cases=cases,
        targets=targets,
        risks=risks,
        promises=settle_promises(judged, cases, risks),
        next_steps=choose_next_steps(run, verdicts, stack),
        costs=tell_costs(run),
        alarms=raise_alarms(run, verdicts, find_doubts(run, told.estimates, verdicts), cases, targets),
    )
    return analysis, score_predictions(run, predictions, _find_outcomes(told, predictions))


def _find_outcomes(told: Told, predictions: Iterable[Prediction]) -> dict[Prediction, Interval]:
    """Measured speed-ups over the parent that was predicted from; over another ancestor they say nothing of the prediction."""
    found = {}
    for prediction in predictions:
        key = (prediction.case, prediction.variant)
        comparison, verdict = told.estimates.comparisons.get(key), told.verdicts.get(key)
        is_same = comparison is None or comparison.against == prediction.parent
        if verdict is not None and verdict.over_parent is not None and is_same:
            found[prediction] = verdict.over_parent
    return found


def _tell_case(told: Told, judged: Judged, case: str, targets: tuple[TargetResult, ...]) -> CaseResult:
    run = told.run
    work, bound = run.work(case), step_floor(run, run.baseline, case)
    control, baseline_control = tell_controls(run, told.estimates, case)
    top = judged.stack[case]
    own = [target for target in targets if target.case == case and target.part is None and target.phase is None]
    rows = [row for row in run.plan.variants if row.kind in TABLED and (case in row.cases or row.kind is Kind.PHASE)]
    end = _judge_end(told.verdicts, case, top)
    told_rows = tuple(make_row(told, row, case) for row in rows)
    held = run[top].analysed(case) if top is not None else None
    return CaseResult(
        case=case,
        items=work.items if work is not None else 1.0,
        item=work.item if work is not None else "items",
        floor_s=bound.seconds if bound is not None else None,
        floor_kind=bound.kind if bound is not None else "",
        rows=told_rows,
        stack=top,
        stack_speedup=end.over_baseline if end is not None else None,
        stack_chained=end is not None and end.chained,
        stack_at_least=end.at_least if end is not None else None,
        stack_level=join_levels(own),
        stack_status=end.baseline_status if end is not None else None,
        stack_reason=end.baseline_reason if end is not None else Reason.NONE,
        control=control,
        baseline_control=baseline_control,
        smaller=tell_smaller(run, case),
        peers=tuple(judged.peers[case]),
        strongest_peer=_find_strongest(run, judged.peers[case], case),
        parts=tuple(_tell_part(judged, case, part, targets) for part in run.plan.parts),
        ladder=build_ladder(told_rows, judged.peers[case], top, held.floor_s if held is not None else None),
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
        chained=end is not None and end.chained,
        status=end.baseline_status if end is not None else None,
    )


def _find_strongest(run: Run, peers: Sequence[PeerRow], case: str) -> str | None:
    """The peer in the headline that takes the least time."""
    headline = run.headline(case)
    there = {arm.variant for arm in headline.arms} if headline is not None else set()
    found = [(peer.ratio.estimate, peer.name) for peer in peers if peer.ratio and f"peer-{peer.name}" in there]
    return min(found)[1] if found else None


def _find_end(run: Run, verdicts: Mapping[Key, Verdict], case: str, part: str | None = None) -> str | None:
    """The last kept variant of the stack (of `part`) whose numbers hold; the baseline is the end of an empty stack."""
    top = run.plan.stack.get(case)
    if top is None:
        return None
    for variant in (top, *run[top].ancestors(case)):
        phase = run.phases.get(variant)
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
    return verdict if verdict.over_baseline is not None or verdict.at_least is not None else None


def _peer_rows(told: Told, case: str) -> tuple[PeerRow, ...]:
    return tuple(make_peer_row(told, row, case) for row in told.run.rows_in(case, Kind.PEER))


def _phase_levels(targets: tuple[TargetResult, ...]) -> dict[tuple[str, str], Level]:
    """(case, phase) -> the level that all targets of the phase reach."""
    keys = dict.fromkeys((target.case, target.phase) for target in targets if target.phase is not None)
    return {
        (case, phase): join_levels([target for target in targets if (target.case, target.phase) == (case, phase)])
        for case, phase in keys
        if phase is not None
    }


def _commits(run: Run) -> tuple[str, ...]:
    kinds = (Measurement, Profile, Validation, Export)
    found = {record.commit for kind in kinds for record in run.find_all(kind).values()}
    return tuple(sorted(found - {""}))
