"""The verdict of every variant in every case: gates first, then statistics over the whole run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from phasewise.analyse.baseline import OverBaseline, over_baseline
from phasewise.analyse.compare import Comparison, Estimates, Key, to_interval
from phasewise.analyse.control import explain_no_limit
from phasewise.analyse.families import Against, Claim, adjust
from phasewise.analyse.floor import is_impossible, step_floor
from phasewise.analyse.gate import CANNOT_RUN, TOLD, judge_gate
from phasewise.analyse.scale import runs_smaller_only
from phasewise.analyse.strayed import find_stray
from phasewise.model.arms import find_parent_arm
from phasewise.model.ratios import dropped_share
from phasewise.records.plan import Kind
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Failure, Reason, Status, Verdict
from phasewise.run import Run
from phasewise.stats import UNMEASURED_FLOOR, Chances, Conditions, Decision, RatioEstimate, decide_status, p_value
from phasewise.stats.verdict import LEAST_OF_ONE_SET, MOST_DROPPED

# comparisons that make a claim: a control makes none
CLAIMING = (Kind.PHASE, Kind.WITHOUT, Kind.ONLY, Kind.PEER)
# what has a speed-up over the baseline
STACKED = (Kind.PHASE, Kind.WITHOUT, Kind.ONLY)


def judge_all(run: Run, estimates: Estimates) -> dict[Key, Verdict]:
    """The verdicts by (case, variant)."""
    rows = [row for row in run.plan.variants if row.kind is not Kind.CONTROL]
    keys = [(case, row.variant) for case in run.plan.cases for row in rows]
    gates = {key: _judge_before(run, estimates, key) for key in keys}
    ratios = {
        key: estimates.comparisons[key].ratio for key in keys if gates[key] is None and key in estimates.comparisons
    }
    stacked = [key for key in keys if run.rows[key[1]].kind in STACKED]
    over = {key: found for key in stacked if (found := over_baseline(run, estimates, key, gates)) is not None}
    adjusted = adjust(_find_claims(run, ratios, over))
    verdicts = {}
    for key in keys:
        verdict = gates[key]
        if verdict is None:
            verdict = _judge_parent(estimates, key, gates) or _judge_speed(
                run, estimates, key, adjusted.get((key, _kind(run, key)))
            )
        verdicts[key] = verdict
    return verdicts | {
        key: _add_over_baseline(verdicts[key], found, adjusted.get((key, Against.BASELINE)))
        for key, found in over.items()
    }


def _judge_before(run: Run, estimates: Estimates, key: Key) -> Verdict | None:
    case, variant = key
    verdict = judge_gate(run, variant, case)
    if verdict is not None or not is_proof(run, case):
        return verdict
    detail = doubt_peak(run, estimates, key)
    return Verdict(status=Status.INVALID, reason=Reason.ABOVE_PEAK, detail=detail) if detail else None


def is_proof(run: Run, case: str) -> bool:
    """Whether a step above the peak must have skipped work: not where torch counted the work, of which another way may need less, nor on
    a CPU, whose caches and clocks have no one peak.
    """
    work = run.work(case)
    return run.machine.kind == "cuda" and work is not None and not work.counted


def doubt_peak(run: Run, estimates: Estimates, key: Key) -> str:
    """A sentence if a variant of ours takes less than its work does at the measured peak; else ""."""
    case, variant = key
    if key not in estimates.times or run.rows[variant].kind is Kind.PEER:
        return ""
    floor, step = step_floor(run, variant, case), estimates.times[key].estimate
    if floor is None or not is_impossible(floor, step):
        return ""
    return f"a step takes {step:.3g} s, and its work at least {floor.least_s:.3g} s at the measured peak"


def find_doubts(run: Run, estimates: Estimates, verdicts: Mapping[Key, Verdict]) -> dict[Key, str]:
    """What is above the peak and was not refused for it."""
    own = [key for key in verdicts if run.rows[key[1]].kind in (Kind.BASELINE, *STACKED)]
    told = {key: doubt_peak(run, estimates, key) for key in own if verdicts[key].status in TOLD}
    return {key: doubt for key, doubt in told.items() if doubt}


def _judge_parent(estimates: Estimates, key: Key, gates: Mapping[Key, Verdict | None]) -> Verdict | None:
    """A ratio to a variant whose numbers are wrong says nothing."""
    found = estimates.comparisons.get(key)
    gate = gates.get((key[0], found.against)) if found is not None else None
    if found is None or gate is None or gate.status is not Status.INVALID:
        return None
    detail = f"{found.against}, which it was measured beside, is INVALID ({gate.reason})"
    return Verdict(status=Status.INCONCLUSIVE, reason=Reason.NO_PARENT, detail=detail)


def _judge_speed(
    run: Run,
    estimates: Estimates,
    key: Key,
    adjusted: Chances | None,
) -> Verdict:
    case, variant = key
    if run.rows[variant].kind is Kind.BASELINE:
        return Verdict(status=Status.BASELINE)
    found = estimates.comparisons.get(key)
    if found is None:
        return _judge_alone(run, variant, case)
    ratio = found.ratio
    decision = _decide(found, adjusted)
    status, reason, detail = Status(decision.status), Reason(decision.reason), ""
    if reason is Reason.BELOW_FLOOR and found.limit is None:
        detail = explain_no_limit(estimates, case)
    slowed, why = find_stray(run, key)
    if status is Status.FASTER and why and ratio.low <= slowed:
        status, reason, detail = Status.INCONCLUSIVE, Reason.PARENT_STRAYED, why
    numbers = {
        "rounds": float(ratio.rounds),
        "sets": float(ratio.sets),
        "df": ratio.df,
        "p": p_value(ratio),
        "p_adjusted": adjusted.differs if adjusted is not None else None,
        "floor": _bar(found),
        "resolution": ratio.resolution,
        "within_sd": ratio.within_sd,
        "between_sd": ratio.between_sd,
        "dropped": found.dropped,
    }
    return Verdict(
        status=status,
        reason=reason,
        detail=detail,
        numbers={name: value for name, value in numbers.items() if value is not None and math.isfinite(value)},
        over_parent=to_interval(ratio),
    )


def _decide(found: Comparison, adjusted: Chances | None) -> Decision:
    return decide_status(
        found.ratio,
        aa_floor=found.limit,
        adjusted=adjusted,
        cycles=found.cycles,
        conditions=_conditions(found),
    )


def _bar(found: Comparison) -> float:
    """What a claim must exceed, as ratio - 1."""
    return math.expm1(UNMEASURED_FLOOR if found.limit is None else found.limit)


def _conditions(found: Comparison) -> Conditions:
    ratio, (share, effect) = found.ratio, found.neighbours
    # what is larger than the neighbours could fake is no work of theirs
    nearest = min(abs(math.log(bound)) for bound in (ratio.low, ratio.high)) if _is_finite(ratio) else 0.0
    clears = _is_finite(ratio) and not ratio.low <= 1.0 <= ratio.high and nearest > effect
    return Conditions(
        dropped_share=found.dropped,
        has_neighbour=share > MOST_DROPPED and not clears,
        modes=found.modes,
        jumps=found.jumps,
        warming=found.warming,
        bistable=found.bistable,
    )


def _judge_alone(run: Run, variant: str, case: str) -> Verdict:
    """A variant that was measured and has nothing to be compared with."""
    measured = run[variant].measured(case)
    assert measured is not None
    parent = find_parent_arm(measured)
    if parent is not None and parent.failure is not None:
        gate = run[parent.variant].gate(case)
        if parent.failure.reason is Reason.CRASH and gate is not None and gate.outcome is Outcome.PASS:
            # it can run: what ended it beside this variant is not its own
            detail = f"{parent.variant} passed its gate and crashed here: {parent.failure.message}"
            return Verdict(status=Status.INCONCLUSIVE, reason=Reason.NO_PARENT, detail=detail)
        return _enabled(parent.variant, parent.failure)
    if parent is None:
        for name in run[variant].ancestors(case):
            failure = _failure_of(run, name, case)
            if failure is not None:
                return _enabled(name, failure)
        reason = Reason.SMALLER_SHAPES if runs_smaller_only(run, case) else Reason.NO_PARENT
        return Verdict(status=Status.INCONCLUSIVE, reason=reason, detail="no valid ancestor was measured beside it")
    reason = Reason.THROTTLED if dropped_share(measured) > MOST_DROPPED else Reason.FEW_ROUNDS
    return Verdict(status=Status.INCONCLUSIVE, reason=reason, detail=measured.stopped)


def _enabled(parent: str, failure: Failure) -> Verdict:
    if failure.reason in CANNOT_RUN:
        detail = f"{parent} cannot run ({failure.reason}): {failure.message}"
        return Verdict(status=Status.ENABLED, reason=Reason.PARENT_CANNOT_RUN, detail=detail)
    detail = f"{parent} was not measured ({failure.reason}): {failure.message}"
    return Verdict(status=Status.INCONCLUSIVE, reason=Reason.NO_PARENT, detail=detail)


def _failure_of(run: Run, variant: str, case: str) -> Failure | None:
    """Why an ancestor could not run, from its own records."""
    gate = run[variant].gate(case)
    if gate is not None and gate.failure is not None:
        return gate.failure
    arm = run[variant].arm(case)
    return arm.failure if arm is not None else None


def _add_over_baseline(verdict: Verdict, over: OverBaseline, adjusted: Chances | None) -> Verdict:
    """The verdict with the speed-up over the baseline, and what may be claimed of that.

    `adjusted`: None where the ratio is the one over the parent, and keeps its verdict.
    """
    status, reason = verdict.status, verdict.reason
    ratio = over.comparison.ratio
    interval = to_interval(ratio)
    is_bound = interval is None and ratio.estimate > 1.0 and ratio.nearest > math.log(LEAST_OF_ONE_SET)
    if is_bound:
        status, reason = Status.FASTER, Reason.NONE
    elif adjusted is not None:
        decision = _decide(over.comparison, adjusted)
        status, reason = Status(decision.status), Reason(decision.reason)
    return msgspec.structs.replace(
        verdict,
        numbers=verdict.numbers | {"baseline_floor": _bar(over.comparison)},
        over_baseline=interval,
        # a single set may owe such a factor to its processes
        at_least=math.exp(ratio.nearest) / LEAST_OF_ONE_SET if is_bound else None,
        chained=over.chained,
        baseline_status=status,
        baseline_reason=reason,
    )


def _find_claims(
    run: Run, ratios: Mapping[Key, RatioEstimate], over: Mapping[Key, OverBaseline]
) -> dict[Claim, RatioEstimate]:
    """Every ratio that the report judges, once; controls claim nothing."""
    claims: dict[Claim, RatioEstimate] = {
        (key, _kind(run, key)): ratio for key, ratio in ratios.items() if run.rows[key[1]].kind in CLAIMING
    }
    claims |= {
        (key, Against.BASELINE): found.comparison.ratio
        for key, found in over.items()
        if found.comparison.ratio != ratios.get(key)
    }
    return claims


def _kind(run: Run, key: Key) -> Against:
    return Against.PEER if run.rows[key[1]].kind is Kind.PEER else Against.PARENT


def _is_finite(ratio: RatioEstimate) -> bool:
    return ratio.low > 0.0 and math.isfinite(ratio.high)
