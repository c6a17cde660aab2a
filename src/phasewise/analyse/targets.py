"""Targets with what was reached: a bound counts only if the interval's cautious end reaches it, a gain only if it is a claim.

It is missed only if the other end does not reach it either; between the two nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.analyse.compare import Estimates, Key
from phasewise.analyse.floor import step_floor
from phasewise.analyse.gate import TOLD
from phasewise.analyse.measures import check_number, counted, energy_per_item, step_time, utilisation
from phasewise.model.arms import find_parent_arm
from phasewise.records.analyse import PeerRow, TargetResult
from phasewise.records.base import Interval
from phasewise.records.plan import Kind, PlannedTarget
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.run import Run

# best first
LEVELS = (Level.STRETCH, Level.TARGET, Level.MINIMUM, Level.DISOWNED, Level.UNDECIDED, Level.MISSED)
# of a step, in the trace of a GPU
COUNTED = ("launches", "synchronisations", "device_to_host")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What targets are compared with."""

    run: Run
    estimates: Estimates
    verdicts: Mapping[Key, Verdict]
    # by case
    peers: Mapping[str, Sequence[PeerRow]]
    # variant that the stack, and each (case, part), ends in
    stack: Mapping[str, str | None]
    parts: Mapping[tuple[str, str], str | None]


def settle_target(judged: Judged, target: PlannedTarget) -> TargetResult:
    """The value of one target's metric with its level, or the reason why there is none."""
    variant, reason = _find_owner(judged, target)
    value: Interval | None = None
    unit = target.unit
    level = Level.NONE
    if variant is not None:
        value, reason, unit = _value(judged, target, variant)
    if value is not None:
        ranks = _ranks(judged, variant, target.case) if target.metric == "scaling_efficiency" else 1
        level = level_of(_include(value, 1.0 / ranks) if reason else value, target)
        # it is told only where it lowers the level
        reason = reason if level is not level_of(value, target) else ""
        if target.disowned:
            level, reason = Level.DISOWNED, target.disowned
    return TargetResult(
        name=target.name, metric=target.metric, unit=unit, case=target.case, against=target.against,
        part=target.part, phase=target.phase,
        value=value.estimate if value else None, low=value.low if value else None, high=value.high if value else None,
        minimum=target.minimum, target=target.target, stretch=target.stretch,
        level=level, reason=reason,
    )  # fmt: skip


def _include(value: Interval, no_change: float) -> Interval:
    """What is no claim may be no change at all."""
    return Interval(estimate=value.estimate, low=min(value.low, no_change), high=max(value.high, no_change))


def level_of(value: Interval, target: PlannedTarget) -> Level:
    """The highest bound that the cautious end of the interval reaches; else whether the other end reaches the lowest."""
    higher = target.better == "higher"
    cautious, hopeful = (value.low, value.high) if higher else (value.high, value.low)
    named = ((Level.STRETCH, target.stretch), (Level.TARGET, target.target), (Level.MINIMUM, target.minimum))
    bounds = [(level, bound) for level, bound in named if bound is not None]
    for level, bound in bounds:
        if cautious >= bound if higher else cautious <= bound:
            return level
    _, lowest = bounds[-1]
    return Level.UNDECIDED if (hopeful >= lowest if higher else hopeful <= lowest) else Level.MISSED


def join_levels(results: Sequence[TargetResult]) -> Level:
    """The level that all of these targets reach; NONE without targets, or where one has no value."""
    if not results or any(result.level is Level.NONE for result in results):
        return Level.NONE
    return LEVELS[max(LEVELS.index(result.level) for result in results)]


def _find_owner(judged: Judged, target: PlannedTarget) -> tuple[str | None, str]:
    """The variant that a target is about: its phase's, the end of its part, or the stack's."""
    if target.size not in ("", judged.run.plan.size):
        return None, f"meant for the size {target.size}"
    if target.phase is not None:
        rows = [row for row in judged.run.rows_in(target.case, Kind.PHASE) if row.phase == target.phase]
        return (rows[0].variant, "") if rows else (None, f"{target.phase} does not apply to {target.case}")
    if target.part is not None:
        variant = judged.parts.get((target.case, target.part))
        return variant, "" if variant else f"no kept phase of {target.part} holds in {target.case}"
    variant = judged.stack.get(target.case)
    if target.metric == "scaling_efficiency" and _ranks(judged, variant, target.case) < 2:
        return _widest(judged, target.case)
    return variant, "" if variant else f"no variant holds in {target.case}"


def _widest(judged: Judged, case: str) -> tuple[str | None, str]:
    """The variant of most ranks: scaling is measured beside the stack."""
    rows = judged.run.rows_in(case, Kind.PHASE)
    wide = [
        (_ranks(judged, row.variant, case), row.variant)
        for row in rows
        if judged.verdicts[(case, row.variant)].status in TOLD and _ranks(judged, row.variant, case) > 1
    ]
    return (max(wide)[1], "") if wide else (None, "no variant of more than one rank was measured")


def _value(judged: Judged, target: PlannedTarget, variant: str) -> tuple[Interval | None, str, str]:
    """The value, the reason why there is none or why it is no gain that can be claimed, and the unit."""
    verdict = judged.verdicts[(target.case, variant)]
    if verdict.status not in TOLD:
        return None, f"{variant} is {verdict.status} ({verdict.reason})", target.unit
    if target.metric == "speedup":
        return *_speedup(judged, target, variant, verdict), target.unit
    if target.metric == "scaling_efficiency":
        return *_scaling(judged, target.case, variant, verdict), target.unit
    value, why, unit = _metric(judged, target, variant)
    if value is None or target.against == "absolute":
        return value, why, unit
    if target.metric in ("time_s", "items_per_s"):
        # paired rounds know the ratio better than two times do
        speedup, why = _speedup(judged, target, variant, verdict)
        return (_invert(speedup) if target.metric == "time_s" and speedup else speedup), why, "x"
    other, why = _other(judged, target, variant)
    if other is None:
        return None, why, "x"
    base, why, _ = _metric(judged, target, other)
    if base is None or min(base.low, value.low) <= 0.0:
        return None, why or f"{target.metric} of {other} is not positive", "x"
    return _divide(value, base), "", "x"


def _speedup(judged: Judged, target: PlannedTarget, variant: str, verdict: Verdict) -> tuple[Interval | None, str]:
    if target.against == "baseline":
        if verdict.status is Status.BASELINE:
            return Interval(estimate=1.0, low=1.0, high=1.0), ""
        found, why = _over_baseline(variant, verdict)
        return found, why if found else f"{variant} has no chain of ratios to the baseline"
    if target.against == "parent":
        found, why = _over_parent(variant, verdict)
        return found, why if found else f"{variant} was not compared with its parent"
    without = _find_phase(judged, target)
    if without is not None:
        if judged.run[without].parent(target.case) != variant:
            return None, f"{without} was not measured beside {variant}"
        found, why = _over_parent(without, judged.verdicts[(target.case, without)])
        return (_invert(found), why) if found else (None, f"{without} was not compared with {variant}")
    peer = next((row for row in judged.peers.get(target.case, ()) if row.name == target.against), None)
    if peer is None or peer.ratio is None:
        why = f"{peer.verdict.status} ({peer.verdict.reason})" if peer else f"no row in {target.case}"
        return None, f"peer {target.against}: {why}"
    if peer.variant != variant:
        return None, f"peer {target.against} was measured beside {peer.variant}, not {variant}"
    return peer.ratio, _unclaimed(variant, target.against, peer.verdict.status, peer.verdict.reason)


def _over_parent(variant: str, verdict: Verdict) -> tuple[Interval | None, str]:
    return verdict.over_parent, _unclaimed(variant, "its parent", verdict.status, verdict.reason)


def _over_baseline(variant: str, verdict: Verdict) -> tuple[Interval | None, str]:
    return verdict.over_baseline, _unclaimed(variant, "the baseline", verdict.baseline_status, verdict.baseline_reason)


def _unclaimed(variant: str, against: str, status: Status | None, reason: Reason) -> str:
    """Why a ratio is no gain; nothing where it is one, or its opposite."""
    if status in (Status.FASTER, Status.SLOWER):
        return ""
    return f"no gain can be claimed: {variant} over {against} is {status} ({reason})"


def _scaling(judged: Judged, case: str, variant: str, verdict: Verdict) -> tuple[Interval | None, str]:
    """Time per item on one rank over that on R ranks, over R; weak and strong scaling differ in the items only."""
    ranks = _ranks(judged, variant, case)
    if ranks < 2:
        return None, f"{variant} runs on one rank"
    measured = judged.run[variant].measured(case)
    parent = find_parent_arm(measured) if measured is not None else None
    over = _over_parent if parent is not None and parent.ranks == 1 else _over_baseline
    speedup, why = over(variant, verdict)
    if speedup is None:
        return None, f"{variant} was not compared with one rank"
    return Interval(estimate=speedup.estimate / ranks, low=speedup.low / ranks, high=speedup.high / ranks), why


def _metric(judged: Judged, target: PlannedTarget, variant: str) -> tuple[Interval | None, str, str]:
    run, case = judged.run, target.case
    arm = run[variant].arm(case)
    value: Interval | None = None
    why, unit = f"{target.metric} of {variant} was not recorded", target.unit
    if target.metric in ("time_s", "items_per_s", "floor_fraction"):
        step = step_time(judged.estimates, (case, variant))
        value, why = _of_time(judged, target.metric, variant, case, step)
    elif target.metric == "peak_memory_bytes":
        peak = arm.peak_memory_bytes if arm is not None else None
        value = Interval(estimate=peak, low=peak, high=peak) if peak is not None else None
    elif target.metric == "energy_j_per_item":
        value = energy_per_item(arm)
        if arm is not None and len(arm.energy) == 1:
            value, why = None, "one energy window gives no interval"
    elif target.metric == "utilisation":
        value = utilisation(run[variant].profiled(case))
    elif target.metric in COUNTED:
        value = counted(run[variant].profiled(case), target.metric) if run.plan.device != "cpu" else None
    else:
        number = check_number(run[variant].gate(case), target.metric)
        if number is not None:
            value, unit = number[0], target.unit or number[1]
    return value, "" if value is not None else why, unit


def _of_time(
    judged: Judged, metric: str, variant: str, case: str, step: Interval | None
) -> tuple[Interval | None, str]:
    if step is None:
        return None, f"no time of {variant} was recorded"
    if metric == "time_s":
        return step, ""
    if metric == "items_per_s":
        arm, work = judged.run[variant].arm(case), judged.run.work(case)
        items = arm.items if arm is not None else work.items if work is not None else 1.0
        return _over(items, step), ""
    floor = step_floor(judged.run, variant, case)
    if floor is None:
        return None, "the workload declares no work for this case, or the machine's peaks were not measured"
    return _over(floor.seconds, step), ""


def _other(judged: Judged, target: PlannedTarget, variant: str) -> tuple[str | None, str]:
    if target.against == "baseline":
        return judged.run.baseline, ""
    if target.against == "parent":
        parent = judged.run[variant].parent(target.case)
        return parent, "" if parent else f"{variant} has no parent"
    without = _find_phase(judged, target)
    if without is not None:
        return without, ""
    rows = judged.run.rows_in(target.case, Kind.PEER)
    name = next((row.variant for row in rows if row.variant == f"peer-{target.against}"), None)
    return name, "" if name else f"peer {target.against} does not apply to {target.case}"


def _find_phase(judged: Judged, target: PlannedTarget) -> str | None:
    """The variant of the phase that a target is against, if it is against one."""
    rows = judged.run.rows_in(target.case, Kind.PHASE)
    return next((row.variant for row in rows if row.phase == target.against), None)


def _ranks(judged: Judged, variant: str | None, case: str) -> int:
    arm = judged.run[variant].arm(case) if variant is not None else None
    return arm.ranks if arm is not None else 1


def _over(amount: float, step: Interval) -> Interval:
    return Interval(estimate=amount / step.estimate, low=amount / step.high, high=amount / step.low)


def _invert(value: Interval) -> Interval:
    return _over(1.0, value)


def _divide(value: Interval, base: Interval) -> Interval:
    """Both ends at their worst: wider than the truth, never narrower."""
    return Interval(estimate=value.estimate / base.estimate, low=value.low / base.high, high=value.high / base.low)
