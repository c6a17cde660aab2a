"""Synthetic rounds with known truth: what the interval, the looks and the verdict do on a noisy machine.

Used by the tests for false alarms, and by the documentation for its table of power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

from phasewise.stats.between import pool_set_levels, summarise_sets
from phasewise.stats.chances import SAME_MARGIN, adjust_chances
from phasewise.stats.floor import aa_floor
from phasewise.stats.looks import StopRules
from phasewise.stats.ratio import RatioEstimate
from phasewise.stats.sets import combine_sets
from phasewise.stats.stopping import Continue, Progress, decide_next
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean
from phasewise.stats.verdict import StatusName, decide_status


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of one arm's block, as standard deviations of the logarithm of its time.

    The defaults are a quiet GPU; fresh process pairs then differ by 0.57 %, somewhat more than the 0.4 % seen
    on an H200.
    """

    white: float = 0.004
    # an Ornstein-Uhlenbeck process that both arms share, with its time constant in blocks
    drift: float = 0.008
    drift_blocks: float = 12.0
    # share of the blocks that are slower, by a uniform fraction between the two
    outlier_share: float = 0.04
    outlier_low: float = 0.02
    outlier_high: float = 0.12
    # of each process, so the difference of two has sqrt(2) times it
    process: float = 0.004


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """What became of simulated comparisons with one true gain; shares are of all comparisons."""

    gain: float
    comparisons: int
    faster: float
    slower: float
    same: float
    # intervals that leave out the truth
    missed: float
    mean_sets: float
    # medians of the log-ratio's half-width, and of the stated resolution
    half_width: float
    resolution: float


def simulate_rounds(
    rng: np.random.Generator, *, sets: int, rounds: int, gain: float = 0.0, noise: Noise | None = None
) -> np.ndarray:
    """Paired log-ratios, shape (sets, rounds), of a variant that is `gain` faster (0.01: 1 %), in shuffled rounds."""
    noise = noise or Noise()
    shape = (sets, rounds, 2)
    log_times = rng.normal(0.0, noise.white, shape)
    slow = rng.random(shape) < noise.outlier_share
    log_times += slow * np.log1p(rng.uniform(noise.outlier_low, noise.outlier_high, shape))
    log_times += _drift(rng, sets, 2 * rounds, noise).reshape(shape)
    # blocks are in time order; the parent's is first in half of the rounds
    sign = rng.choice([1.0, -1.0], size=(sets, rounds))
    of_processes = rng.normal(0.0, math.sqrt(2.0) * noise.process, (sets, 1))
    return math.log1p(gain) + of_processes + sign * (log_times[..., 0] - log_times[..., 1])


def simulate_comparison(
    rng: np.random.Generator, *, rules: StopRules, gain: float = 0.0, noise: Noise | None = None
) -> list[TrimmedMean]:
    """The sets of one comparison measured under the stopping rules without a budget."""
    rounds = simulate_rounds(rng, sets=rules.most_sets, rounds=rules.most_rounds, gain=gain, noise=noise)
    centres: list[TrimmedMean] = []
    taken = 0
    while True:
        progress = Progress(
            sets=len(centres),
            rounds=taken,
            seconds_left=math.inf,
            seconds_a_set=10.0,
            seconds_a_round=1.0,
        )
        estimates = [combine_sets(centres, rules=rules)] if centres else []
        step = decide_next(estimates, rules=rules, progress=progress)
        if not isinstance(step, Continue):
            return centres
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
    pooled: bool = True,
) -> list[RatioEstimate]:
    """The estimates of a run's comparisons, the between-set variance pooled over all of them."""
    measured = [simulate_comparison(rng, rules=rules, gain=gain, noise=noise) for _ in range(comparisons)]
    between = pool_set_levels([summarise_sets(centres) for centres in measured]) if pooled else None
    return [combine_sets(centres, between=between, rules=rules) for centres in measured]


def simulate_report(
    rng: np.random.Generator,
    *,
    gains: Sequence[Sequence[float]],
    rules: StopRules,
    controls: int = 1,
    noise: Noise | None = None,
    pooled: bool = True,
) -> list[list[tuple[RatioEstimate, StatusName]]]:
    """The families of a report, whose comparisons have these true `gains`, with what each is called.

    It also measures `controls` A/A comparisons, which set the noise limit and enter the pool like the others; without
    any there is no limit, and the corrected p-values alone decide.
    """
    aa = [simulate_comparison(rng, rules=rules, noise=noise) for _ in range(controls)]
    measured = [[simulate_comparison(rng, rules=rules, gain=gain, noise=noise) for gain in family] for family in gains]
    every = [*aa, *(centres for family in measured for centres in family)]
    between = pool_set_levels([summarise_sets(centres) for centres in every]) if pooled else None
    floor = aa_floor([combine_sets(centres, between=between, rules=rules) for centres in aa]) if aa else 0.0
    ratios = [[combine_sets(centres, between=between, rules=rules) for centres in family] for family in measured]
    return [
        [(ratio, decide_status(ratio, aa_floor=floor, adjusted=p).status) for ratio, p in zip(*family, strict=True)]
        for family in zip(ratios, adjust_chances(ratios), strict=True)
    ]


def simulate_power(
    *,
    gain: float,
    rules: StopRules,
    comparisons: int = 8,
    controls: int = 1,
    runs: int = 200,
    noise: Noise | None = None,
    seed: int = 0,
    pooled: bool = True,
) -> Power:
    """How often a true gain (0.01: 1 %; 0: false alarms) gets which status, in runs of so many comparisons.

    The comparisons of a run are one family, corrected for each other. For a fixed amount of data let `rules` have
    equal bounds.
    """
    rng = np.random.default_rng(seed)
    gains = [[gain] * comparisons]
    reports = [
        simulate_report(rng, gains=gains, rules=rules, controls=controls, noise=noise, pooled=pooled)
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
    pooled: bool = True,
) -> float:
    """Share of reports with a false claim, no noise limit helping.

    False are FASTER and SLOWER at a gain of 0, the wrong one of the two, and SAME at `SAME_MARGIN` or more.
    """
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(runs):
        report = simulate_report(rng, gains=gains, rules=rules, controls=0, noise=noise, pooled=pooled)
        wrong += any(
            _is_false(status, gain)
            for family, truths in zip(report, gains, strict=True)
            for (_, status), gain in zip(family, truths, strict=True)
        )
    return wrong / runs


def _is_false(status: StatusName, gain: float) -> bool:
    if status == "SAME":
        return abs(math.log1p(gain)) >= math.log1p(SAME_MARGIN)
    return (status == "FASTER" and gain <= 0.0) or (status == "SLOWER" and gain >= 0.0)


def _drift(rng: np.random.Generator, series: int, blocks: int, noise: Noise) -> np.ndarray:
    """Stationary Ornstein-Uhlenbeck samples, shape (series, blocks): an AR(1) process with the same autocorrelation."""
    keep = math.exp(-1.0 / noise.drift_blocks)
    drift = rng.normal(0.0, noise.drift, (series, blocks))
    drift[:, 1:] *= math.sqrt(1.0 - keep**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -keep], drift))
