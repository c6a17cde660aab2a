"""Estimate every ratio of a run at once: the noise between processes is learnt from all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from phasewise.analyse.samples import Sets, neighbour_effect, step_logs
from phasewise.analyse.shelf import Shelf
from phasewise.model.ratios import (
    FIXED,
    cycle_log_ratios,
    dropped_share,
    find_arm,
    kept_rounds,
    paired_log_ratios,
    stop_rules,
)
from phasewise.records.base import Interval
from phasewise.records.measure import Arm, CaseMeasurement
from phasewise.records.plan import Kind
from phasewise.stats import (
    BetweenVariance,
    Modes,
    RatioEstimate,
    StopRules,
    estimate_ratio,
    find_modes,
    measure_level,
    pool_like,
)

# (case, variant)
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant against what it was measured beside."""

    against: str
    # time per item of `against` over that of the variant
    ratio: RatioEstimate
    # the same in clock cycles, where clocks are known
    cycles: RatioEstimate | None
    modes: Modes | None
    dropped: float
    # share of the rounds with busy neighbours, and the log-ratio that they can fake
    neighbours: tuple[float, float]
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """All that the statistics say about a run."""

    comparisons: Mapping[Key, Comparison]
    # the same rounds against the baseline, where it ran in them
    over_baseline: Mapping[Key, RatioEstimate]
    # seconds a step, as an estimate on the log scale
    times: Mapping[Key, RatioEstimate]


def estimate_all(shelf: Shelf) -> Estimates:
    """Estimate ratios and times of all measurements that were made on this machine."""
    measured = {
        (case.case, variant): case
        for variant, record in shelf.measurements.items()
        for case in record.cases
        if shelf.is_here(variant) and case.rounds
    }
    pairs = {key: pair for key, case in measured.items() if (pair := _pair(case)) is not None}
    levels = [measure_level(sets) for _, sets in pairs.values()]
    times = {key: step_logs(case, "variant") for key, case in measured.items()}
    times = {key: sets for key, sets in times.items() if sets}
    time_levels = [measure_level(sets) for sets in times.values()]
    rules = {key: _rules(shelf, key[1], case) for key, case in measured.items()}
    over_baseline = {}
    for key, case in measured.items():
        sets = _over_baseline(shelf, key, case)
        if sets:
            over_baseline[key] = estimate_ratio(sets, between=pool_like(sets, levels), rules=rules[key])
    return Estimates(
        comparisons={
            key: _compare(measured[key], arm, sets, pool_like(sets, levels), rules[key])
            for key, (arm, sets) in pairs.items()
        },
        over_baseline=over_baseline,
        times={
            key: estimate_ratio(sets, between=pool_like(sets, time_levels), rules=rules[key])
            for key, sets in times.items()
        },
    )


def to_interval(ratio: RatioEstimate | None) -> Interval | None:
    """The interval as a record; None where the data give no end to it."""
    if ratio is None or not (math.isfinite(ratio.high) and ratio.low > 0.0):
        return None
    return Interval(estimate=ratio.estimate, low=ratio.low, high=ratio.high)


def _rules(shelf: Shelf, variant: str, case: CaseMeasurement) -> StopRules | None:
    """The stopping rules that the rounds were taken under, which the interval pays for; None where nothing could stop early."""
    plan = shelf.plans.get(variant)
    return None if plan is None or case.stopped in FIXED else stop_rules(plan.budget)


def _pair(case: CaseMeasurement) -> tuple[Arm, Sets] | None:
    """The nearest arm that ran in the same rounds as the variant: its parent, its twin, or the baseline."""
    for name in ("parent", "twin", "baseline"):
        arm = find_arm(case, name)
        sets = paired_log_ratios(case, name, "variant") if arm is not None and arm.failure is None else []
        if arm is not None and sets:
            return arm, sets
    return None


def _over_baseline(shelf: Shelf, key: Key, case: CaseMeasurement) -> Sets:
    baseline = find_arm(case, "baseline")
    if baseline is None or baseline.failure is not None or shelf.row(key[1]).kind is Kind.CONTROL:
        return []
    return paired_log_ratios(case, "baseline", "variant")


def _compare(
    case: CaseMeasurement, arm: Arm, sets: Sets, between: BetweenVariance | None, rules: StopRules | None
) -> Comparison:
    cycles = cycle_log_ratios(case, arm.arm, "variant")
    return Comparison(
        against=arm.variant,
        ratio=estimate_ratio(sets, between=between, rules=rules),
        cycles=estimate_ratio(cycles, between=between, rules=rules) if cycles else None,
        modes=find_modes(sets),
        dropped=dropped_share(case),
        neighbours=neighbour_effect(case),
        rounds=len(kept_rounds(case)),
    )
