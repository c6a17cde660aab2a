"""Estimate every ratio of a run at once: the noise between processes is learnt from all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.analyse.samples import Sets, is_bistable, neighbour_effect, step_logs
from phasewise.model.arms import find_arm, take_pair
from phasewise.model.ratios import (
    FIXED,
    cycle_log_ratios,
    dropped_share,
    kept_rounds,
    paired_log_ratios,
    stop_own,
    stop_rules,
)
from phasewise.records.base import Interval
from phasewise.records.measure import Arm, CaseMeasurement
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
    find_warming,
    jump_limit,
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
    # log-ratio that it must clear where there are few sets, since processes jump
    jumps: float = 0.0
    # log-ratio by which an arm was still warming up
    warming: float = 0.0
    # either arm is in one of two states
    bistable: bool = False
    dropped: float = 0.0
    # share of the rounds with busy neighbours, and the log-ratio that they can fake
    neighbours: tuple[float, float] = (0.0, 0.0)
    rounds: int = 0


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """All that the statistics say about a run."""

    comparisons: Mapping[Key, Comparison]
    # against the baseline in the same rounds, of the headline or of the variant itself
    over_baseline: Mapping[Key, Comparison]
    # by case and variant: beside itself
    controls: Mapping[Key, Comparison]
    # seconds a step, as an estimate on the log scale; of the headline where it has the variant
    times: Mapping[Key, RatioEstimate]
    # cases whose headline has the baseline: nothing needs to be chained there
    headlines: frozenset[str]


def estimate_all(run: Run) -> Estimates:
    """Estimate ratios and times of all measurements that were made on this machine."""
    headlines = {case: found for case in run.plan.cases if (found := run.headline(case)) is not None}
    measured = {
        (case, row.variant): found
        for row in run.plan.variants
        for case in run.plan.cases
        if row.kind is not Kind.CONTROL and run[row.variant].is_here and (found := _find_rounds(run, row.variant, case))
    }
    controls = _find_controls(run)
    # of these the headline is no comparison of its own
    own_headlines = {key for case in headlines if (key := (case, run.own_headline(case))) in measured}
    rules = {key: _rules(run, key[1], case, is_headline=key in own_headlines) for key, case in measured.items()}
    pairs = {key: pair for key, case in measured.items() if (pair := _pair(case, "parent", "baseline")) is not None}
    beside = {key: pair for key, case in measured.items() if (pair := _pair(case, "baseline")) is not None}
    repeats = {key: pair for key, (case, _) in controls.items() if (pair := _pair(case, "parent")) is not None}
    firsts = {
        (case, arm.variant): view
        for case, found in headlines.items()
        for arm in found.arms
        if (case, arm.variant) not in own_headlines
        and run.rows[arm.variant].kind is not Kind.PEER
        and (view := take_pair(found, "baseline", arm.arm)) is not None
    }
    over = {key: pair for key, case in firsts.items() if (pair := _pair(case, "parent")) is not None}
    # one comparison of each headline, since the others share its processes
    apart = {key[0]: pair for key, pair in over.items()}
    own = [pair for key, pair in pairs.items() if not _is_in(headlines.get(key[0]), key[1])]
    levels = [measure_level(sets) for _, sets in (*own, *apart.values(), *repeats.values())]

    def compare(key: Key, case: CaseMeasurement, pair: tuple[Arm, Sets]) -> Comparison:
        return _compare(case, *pair, levels, rules.get(key))

    return Estimates(
        comparisons={key: compare(key, measured[key], pair) for key, pair in pairs.items()},
        over_baseline={key: compare(key, measured[key], pair) for key, pair in beside.items()}
        | {key: _compare(firsts[key], *pair, levels, None) for key, pair in over.items()},
        controls={key: _compare(controls[key][0], *pair, levels, controls[key][1]) for key, pair in repeats.items()},
        times=_estimate_times(measured, headlines, [case for case, _ in controls.values()], rules, dict(own_headlines)),
        headlines=frozenset(apart) | {case for case, _ in own_headlines},
    )


def _estimate_times(
    measured: Mapping[Key, CaseMeasurement],
    headlines: Mapping[str, CaseMeasurement],
    controls: Sequence[CaseMeasurement],
    rules: Mapping[Key, StopRules | None],
    own: Mapping[str, str],
) -> dict[Key, RatioEstimate]:
    """Times that stand beside a ratio of the headline come from its rounds, where they agree with it.

    `own`: by case, the variant whose own rounds the headline has.
    """
    found = {key: (step_logs(case, "variant"), rules[key]) for key, case in measured.items()}
    found |= {
        # of its own rounds the headline has the rules, too
        (case, arm.variant): (step_logs(headline, arm.arm), rules.get((case, own.get(case, ""))))
        for case, headline in headlines.items()
        for arm in headline.arms
        if step_logs(headline, arm.arm)
    }
    found = {key: one for key, one in found.items() if one[0]}
    repeated = [step_logs(case, "variant") for case in controls]
    levels = [measure_level(sets) for sets in (*(sets for sets, _ in found.values()), *repeated) if sets]
    return {
        key: estimate_ratio(sets, between=learn_between(measure_level(sets), levels), rules=paid)
        for key, (sets, paid) in found.items()
    }


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
        warming=sum(link.warming for link in links),
        bistable=any(link.bistable for link in links),
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


def _find_rounds(run: Run, variant: str, case: str) -> CaseMeasurement | None:
    found = run[variant].measured(case)
    return found if found is not None and found.rounds else None


def _find_controls(run: Run) -> dict[Key, tuple[CaseMeasurement, StopRules | None]]:
    """By the variant that was timed beside itself, with the rules that it could stop by.

    Older records hold such pairs as variants of their own.
    """
    found: dict[Key, tuple[CaseMeasurement, StopRules | None]] = {}
    older = [row.variant for row in run.plan.variants if row.kind is Kind.CONTROL and run[row.variant].is_here]
    for case in run.plan.cases:
        for name in older:
            measured = _find_rounds(run, name, case)
            first = None if measured is None else find_arm(measured, "parent")
            if measured is not None and first is not None:
                found[case, first.variant] = measured, _rules(run, name, measured, is_headline=False)
        control = run.control(case)
        first = None if control is None else find_arm(control, "parent")
        if control is not None and first is not None:
            found[case, first.variant] = control, None
    return found


def _is_in(headline: CaseMeasurement | None, variant: str) -> bool:
    """Whether a peer's rounds are those of the headline."""
    return headline is not None and any(arm.arm == variant for arm in headline.arms)


def _rules(run: Run, variant: str, case: CaseMeasurement, *, is_headline: bool) -> StopRules | None:
    """The stopping rules that the rounds were taken under, which the interval pays for; None where nothing could stop early."""
    plan = run[variant].plan
    if plan is None or case.stopped in FIXED:
        return None
    return stop_own(plan.budget) if is_headline else stop_rules(plan.budget)


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
        jumps=jump_limit(noise, levels),
        warming=find_warming(sets),
        bistable=any(is_bistable(case, name) for name in (arm.arm, "variant")),
        dropped=dropped_share(case),
        neighbours=neighbour_effect(case),
        rounds=len(kept_rounds(case)),
    )
