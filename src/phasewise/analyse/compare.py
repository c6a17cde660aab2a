"""Estimate every ratio of a run at once: the noise between processes is learnt from all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.analyse.samples import Sets, neighbour_effect, step_logs
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
from phasewise.records.measure import Arm, CaseMeasurement, Measurement
from phasewise.records.plan import Kind
from phasewise.run import Run
from phasewise.stats import (
    Modes,
    RatioEstimate,
    SetLevel,
    StopRules,
    chain_ratios,
    estimate_ratio,
    find_modes,
    learn_between,
    measure_level,
)

# (case, variant)
Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant against what it was measured beside."""

    against: str
    # time per item of `against` over that of the variant
    ratio: RatioEstimate
    # noise of its rounds and sets; None for a product
    noise: SetLevel | None = None
    # log-ratio that a claim must clear; None where no control says
    limit: float | None = None
    # the same in clock cycles, where clocks are known
    cycles: RatioEstimate | None = None
    modes: Modes | None = None
    dropped: float = 0.0
    # share of the rounds with busy neighbours, and the log-ratio that they can fake
    neighbours: tuple[float, float] = (0.0, 0.0)
    rounds: int = 0


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """All that the statistics say about a run."""

    comparisons: Mapping[Key, Comparison]
    # the same rounds against the baseline, where it ran in them
    over_baseline: Mapping[Key, Comparison]
    # seconds a step, as an estimate on the log scale
    times: Mapping[Key, RatioEstimate]


def estimate_all(run: Run) -> Estimates:
    """Estimate ratios and times of all measurements that were made on this machine."""
    measured = {
        (case.case, variant): case
        for variant, record in run.find_all(Measurement).items()
        for case in record.cases
        if run[variant].is_here and case.rounds
    }
    pairs = {key: pair for key, case in measured.items() if (pair := _pair(case, "parent", "baseline")) is not None}
    levels = [measure_level(sets) for _, sets in pairs.values()]
    times = {key: step_logs(case, "variant") for key, case in measured.items()}
    times = {key: sets for key, sets in times.items() if sets}
    time_levels = [measure_level(sets) for sets in times.values()]
    rules = {key: _rules(run, key[1], case) for key, case in measured.items()}
    timed = {key: case for key, case in measured.items() if run.rows[key[1]].kind is not Kind.CONTROL}
    beside = {key: pair for key, case in timed.items() if (pair := _pair(case, "baseline")) is not None}
    comparisons, over_baseline = (
        {key: _compare(measured[key], arm, sets, levels, rules[key]) for key, (arm, sets) in of.items()}
        for of in (pairs, beside)
    )
    return Estimates(
        comparisons=comparisons,
        over_baseline=over_baseline,
        times={
            key: estimate_ratio(sets, between=learn_between(measure_level(sets), time_levels), rules=rules[key])
            for key, sets in times.items()
        },
    )


def chain(links: Sequence[Comparison]) -> Comparison:
    """The product of comparisons, each link against the variant of the next: on the log scale all effects add up."""
    if len(links) == 1:
        return links[0]
    return Comparison(
        against=links[-1].against,
        ratio=chain_ratios([link.ratio for link in links]),
        limit=_add_limits([link.limit for link in links]),
        cycles=chain_ratios([link.cycles or link.ratio for link in links])
        if any(link.cycles for link in links)
        else None,
        modes=_add_modes(links),
        dropped=max(link.dropped for link in links),
        neighbours=(max(link.neighbours[0] for link in links), sum(link.neighbours[1] for link in links)),
        rounds=min(link.rounds for link in links),
    )


def _add_limits(limits: Sequence[float | None]) -> float | None:
    """Of independent links, in quadrature; None where one has none."""
    known = [limit for limit in limits if limit is not None]
    return math.hypot(*known) if len(known) == len(limits) else None


def _add_modes(links: Sequence[Comparison]) -> Modes | None:
    """All links in their lower mode, and all in their upper one; None where no link has two."""
    found = [link.modes for link in links if link.modes is not None]
    if not found:
        return None
    rest = sum(link.ratio.log_estimate for link in links if link.modes is None)
    return Modes(
        low=rest + sum(modes.low for modes in found),
        high=rest + sum(modes.high for modes in found),
        high_share=math.prod(modes.high_share for modes in found),
        explained=min(modes.explained for modes in found),
    )


def to_interval(ratio: RatioEstimate | None) -> Interval | None:
    """The interval as a record; None where the data give no end to it."""
    if ratio is None or not (math.isfinite(ratio.high) and ratio.low > 0.0):
        return None
    return Interval(estimate=ratio.estimate, low=ratio.low, high=ratio.high)


def _rules(run: Run, variant: str, case: CaseMeasurement) -> StopRules | None:
    """The stopping rules that the rounds were taken under, which the interval pays for; None where nothing could stop early."""
    plan = run[variant].plan
    return None if plan is None or case.stopped in FIXED else stop_rules(plan.budget)


def _pair(case: CaseMeasurement, *names: str) -> tuple[Arm, Sets] | None:
    """The first of these arms that ran in the same rounds as the variant."""
    for name in names:
        arm = find_arm(case, name)
        sets = paired_log_ratios(case, name, "variant") if arm is not None and arm.failure is None else []
        if arm is not None and sets:
            return arm, sets
    return None


def _compare(
    case: CaseMeasurement, arm: Arm, sets: Sets, levels: Sequence[SetLevel], rules: StopRules | None
) -> Comparison:
    noise = measure_level(sets)
    between = learn_between(noise, levels)
    cycles = cycle_log_ratios(case, arm.arm, "variant")
    return Comparison(
        against=arm.variant,
        ratio=estimate_ratio(sets, between=between, rules=rules),
        noise=noise,
        cycles=estimate_ratio(cycles, between=between, rules=rules) if cycles else None,
        modes=find_modes(sets),
        dropped=dropped_share(case),
        neighbours=neighbour_effect(case),
        rounds=len(kept_rounds(case)),
    )
