"""Synthetic rounds with known truth: what the interval, the looks and the verdict do on a noisy machine.

Used by the tests for false alarms, and by the documentation for its table of power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phasewise.stats.between import SetLevel, learn_between, summarise_sets
from phasewise.stats.chances import SAME_MARGIN, Chances, adjust_chances
from phasewise.stats.floor import CONTROL_SHARE, noise_limit
from phasewise.stats.jumps import jump_limit
from phasewise.stats.looks import StopRules
from phasewise.stats.noise import Noise, simulate_rounds
from phasewise.stats.ratio import RatioEstimate
from phasewise.stats.sets import combine_sets
from phasewise.stats.stopping import Continue, Standing, decide_next
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean
from phasewise.stats.verdict import Conditions, StatusName, decide_status
from phasewise.stats.warming import find_warming


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """What became of simulated comparisons with one true gain; shares are of all comparisons."""

    gain: float
    comparisons: int
    faster: float
    slower: float
    same: float
    # runs with a false word, see `false_reports`
    alarmed: float
    # intervals that leave out the truth
    missed: float
    mean_sets: float
    mean_rounds: float
    # medians of the log-ratio's half-width, and of the stated resolution
    half_width: float
    resolution: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The sets of one comparison: paired log-ratios, and the trimmed mean of each."""

    sets: list[np.ndarray]
    centres: list[TrimmedMean]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """One comparison among those of its run."""

    level: SetLevel
    ratio: RatioEstimate
    conditions: Conditions


def simulate_comparison(
    rng: np.random.Generator, *, rules: StopRules, gain: float = 0.0, noise: Noise | None = None
) -> Measured:
    """One comparison measured under the stopping rules without a budget."""
    rounds = simulate_rounds(rng, sets=rules.most_sets, rounds=rules.most_rounds, gain=gain, noise=noise)
    centres: list[TrimmedMean] = []
    taken = 0
    while True:
        progress = Standing(
            sets=len(centres),
            rounds=taken,
            seconds_left=math.inf,
            seconds_a_set=10.0,
            seconds_a_round=1.0,
        )
        estimates = [combine_sets(centres, rules=rules)] if centres else []
        step = decide_next(estimates, rules=rules, progress=progress)
        if not isinstance(step, Continue):
            sets = [rounds[number, : centre.rounds] for number, centre in enumerate(centres)]
            return Measured(sets=sets, centres=centres)
        if step.where == "fresh-set":
            taken = step.rounds
        else:
            taken += step.rounds
            centres.pop()
        centres.append(trimmed_mean(rounds[len(centres), :taken]))


def simulate_run(
    rng: np.random.Generator,
    *,
    comparisons: int,
    rules: StopRules,
    gain: float = 0.0,
    noise: Noise | None = None,
    shared: bool = True,
) -> list[RatioEstimate]:
    """The estimates of a run's comparisons, the between-set variance moderated over all of them where `shared`."""
    measured = [simulate_comparison(rng, rules=rules, gain=gain, noise=noise) for _ in range(comparisons)]
    return [found.ratio for found in _estimate(measured, rules=rules, shared=shared)]


def simulate_report(
    rng: np.random.Generator,
    *,
    gains: Sequence[Sequence[float]],
    rules: StopRules,
    controls: int = 1,
    noise: Noise | None = None,
    shared: bool = True,
) -> list[list[tuple[RatioEstimate, StatusName]]]:
    """The families of a report, whose comparisons have these true `gains`, with what each is called.

    It also measures `controls` A/A comparisons, which set the noise limits; without them there is no limit, and the
    corrected p-values alone decide. `shared`: whether comparisons learn from each other, controls too; these have as many
    sets as their share of the time pays for, and those that learn nothing as many as the others.
    """
    spare = _control_rules(rules, sum(map(len, gains))) if shared else rules
    aa = [simulate_comparison(rng, rules=spare, noise=noise) for _ in range(controls)]
    measured = [[simulate_comparison(rng, rules=rules, gain=gain, noise=noise) for gain in family] for family in gains]
    found = iter(_estimate([*aa, *(one for family in measured for one in family)], rules=rules, shared=shared))
    known = [next(found) for _ in aa]
    families = [[next(found) for _ in family] for family in gains]
    adjusted = adjust_chances([[one.ratio for one in family] for family in families])
    return [
        [(one.ratio, _decide(one, known, chances)) for one, chances in zip(family, corrected, strict=True)]
        for family, corrected in zip(families, adjusted, strict=True)
    ]


def _control_rules(rules: StopRules, comparisons: int) -> StopRules:
    """The fixed amount that a control beside so many comparisons has."""
    sets = max(1, min(rules.least_sets, int(CONTROL_SHARE * comparisons * rules.least_sets)))
    return replace(rules, most_rounds=rules.least_rounds, least_sets=sets, most_sets=sets)


def _decide(one: Estimated, controls: Sequence[Estimated], adjusted: Chances) -> StatusName:
    limit = noise_limit(one.level, [(control.level, control.ratio) for control in controls]) if controls else 0.0
    return decide_status(one.ratio, aa_floor=limit, adjusted=adjusted, conditions=one.conditions).status


def simulate_power(
    *,
    gain: float,
    rules: StopRules,
    comparisons: int = 8,
    controls: int = 1,
    runs: int = 200,
    noise: Noise | None = None,
    seed: int = 0,
    shared: bool = True,
) -> Power:
    """How often a true gain (0.01: 1 %; 0: false alarms) gets which status, in runs of so many comparisons.

    The comparisons of a run are one family, corrected for each other. For a fixed amount of data let `rules` have
    equal bounds.
    """
    rng = np.random.default_rng(seed)
    gains = [[gain] * comparisons]
    reports = [
        simulate_report(rng, gains=gains, rules=rules, controls=controls, noise=noise, shared=shared)
        for _ in range(runs)
    ]
    estimates = [ratio for report in reports for ratio, _ in report[0]]
    statuses = [status for report in reports for _, status in report[0]]
    return Power(
        gain=gain,
        comparisons=len(estimates),
        faster=statuses.count("FASTER") / len(statuses),
        slower=statuses.count("SLOWER") / len(statuses),
        same=statuses.count("SAME") / len(statuses),
        missed=sum(not ratio.low <= 1.0 + gain <= ratio.high for ratio in estimates) / len(estimates),
        alarmed=sum(any(_is_false(status, gain) for _, status in report[0]) for report in reports) / runs,
        mean_rounds=float(np.mean([ratio.rounds for ratio in estimates])),
        mean_sets=float(np.mean([ratio.sets for ratio in estimates])),
        half_width=float(np.median([ratio.half_width for ratio in estimates])),
        resolution=float(np.median([ratio.resolution for ratio in estimates])),
    )


def false_reports(
    *,
    gains: Sequence[Sequence[float]],
    rules: StopRules,
    runs: int,
    noise: Noise | None = None,
    seed: int = 0,
    shared: bool = True,
) -> float:
    """Share of reports with a false claim, no noise limit helping.

    False are FASTER and SLOWER at a gain of 0, the wrong one of the two, and SAME at `SAME_MARGIN` or more.
    """
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(runs):
        report = simulate_report(rng, gains=gains, rules=rules, controls=0, noise=noise, shared=shared)
        wrong += any(
            _is_false(status, gain)
            for family, truths in zip(report, gains, strict=True)
            for (_, status), gain in zip(family, truths, strict=True)
        )
    return wrong / runs


def _estimate(measured: Sequence[Measured], *, rules: StopRules, shared: bool) -> list[Estimated]:
    """Each comparison of a run, as `analyse` finds them."""
    levels = [summarise_sets(one.centres) for one in measured]
    return [
        Estimated(
            level=own,
            ratio=combine_sets(one.centres, between=learn_between(own, levels) if shared else None, rules=rules),
            conditions=Conditions(jumps=jump_limit(own, levels), warming=find_warming(one.sets)),
        )
        for one, own in zip(measured, levels, strict=True)
    ]


def _is_false(status: StatusName, gain: float) -> bool:
    if status == "SAME":
        return abs(math.log1p(gain)) >= math.log1p(SAME_MARGIN)
    return (status == "FASTER" and gain <= 0.0) or (status == "SLOWER" and gain >= 0.0)
