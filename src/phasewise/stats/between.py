"""The variance between process sets, pooled over the comparisons of a run.

Three sets leave two degrees of freedom, so alone they could never support a small claim. What fresh processes
do to a ratio is mostly the machine's doing, and a run has many comparisons to learn it from - as long as they
are alike, which is tested: Cochran (1941), Annals of Eugenics 11, 47-52, in the form for unequal degrees of
freedom of 't Lam (2010), Analytica Chimica Acta 659, 68-84: the largest variance against the pool of the
others, an F ratio.

What is noisy from round to round is noisy from process to process: a kernel that fills the device repeats to a few
tenths of a per cent, a loop of launches waits for the host. So a comparison borrows only from those whose rounds are
about as noisy as its own; on an H200 one run held set scatters of 0.1 % and of 30 %, side by side.

The test sees little with three sets: a comparison with twice the others' noise between sets passes in over half
of the runs, and its 95 % intervals then miss about one time in six. The A/A control of the same case is the
second guard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasewise.stats.ratio import satterthwaite
from phasewise.stats.special import fdtrc
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean

# one comparison may not use the pool: a missed difference costs false claims, a false one only width, so well above
# 5 %, though below the 25 % that Bancroft (1964), Biometrics 20, 427-442, recommends for tests before pooling, which
# would leave every fourth comparison to its own three sets
UNLIKE_LEVEL = 0.10
# the pool may not use one comparison: Cochran's level for the whole run; leaving out large variances any sooner would
# bias the pool low (at 10 % each, nine like comparisons of three sets had 8 % misses instead of 5 %)
OUTLIER_LEVEL = 0.05
# scatters of two comparisons differ with this chance at most where they are alike
ODD_SCATTER = 0.05
# rounds are as noisy as others where a set's standard error is so many times theirs at most, or they are of it
LIKE_ROUNDS = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SetLevel:
    """One comparison seen from its sets: all on the log scale, variances of a *set's* trimmed mean."""

    sets: int
    mean: float
    # sample variance of the set means: noise between sets and within them together; nan with one set
    scatter: float
    # the share of it that rounds explain; infinite where a set has one round
    within: float
    within_df: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BetweenVariance:
    """What a run knows of the noise between process sets, as a variance of log-ratios."""

    # of the process effects alone, never negative
    variance: float
    # of the pooled variance of set means, from which the share of the rounds was taken
    df: float
    # that pooled variance itself
    mean_square: float

    def df_with(self, own: SetLevel) -> float:
        """Degrees of freedom of `variance` plus the within share of a comparison (Satterthwaite 1946)."""
        doubt = self.mean_square**2 / self.df
        if own.within > 0.0:
            doubt += own.within**2 / own.within_df
        return max(1.0, (self.variance + own.within) ** 2 / doubt) if doubt > 0.0 else self.df


def summarise_sets(centres: Sequence[TrimmedMean]) -> SetLevel:
    """Mean and both variances of a comparison's sets. Raises ValueError where there is no set."""
    if not centres:
        raise ValueError("a comparison has no process set; it needs at least one with one round")
    means = [centre.estimate for centre in centres]
    mean = math.fsum(means) / len(means)
    squares = math.fsum((value - mean) ** 2 for value in means)
    # identical means have no scatter, though their mean may be off by a rounding error
    scatter = squares / (len(means) - 1) if min(means) < max(means) else 0.0
    return SetLevel(
        sets=len(means),
        mean=mean,
        scatter=scatter if len(means) > 1 else math.nan,
        within=sum(centre.variance for centre in centres) / len(centres),
        within_df=satterthwaite((centre.variance, centre.df) for centre in centres),
    )


def pool_like(sets: Sequence[Sequence[float]], levels: Sequence[SetLevel]) -> BetweenVariance | None:
    """`pool_set_levels` of those of a run's `levels` whose rounds are about as noisy as those of `sets`."""
    own = measure_level(sets)
    return pool_set_levels([level for level in levels if _is_as_noisy(level, own)])


def measure_level(sets: Sequence[Sequence[float]]) -> SetLevel:
    """`summarise_sets` of paired log-ratios, one list a process set."""
    return summarise_sets([trimmed_mean(rounds) for rounds in sets])


def pool_set_levels(levels: Sequence[SetLevel]) -> BetweenVariance | None:
    """The between-set variance of the comparisons of a run.

    A comparison whose sets scatter far more than the others' is left out, the worst first; `estimate_ratio` then
    finds it unlike the pool and falls back on its own sets. The comparisons must not share processes: of
    ratios that share an arm (variant over parent, variant over baseline) give one, or the degrees of freedom
    are overstated. None where no comparison has two sets of two rounds.
    """
    kept = [level for level in levels if level.sets > 1 and math.isfinite(level.within)]
    while len(kept) > 1:
        worst = min(range(len(kept)), key=lambda i: _p_larger(kept[i], _pool(kept[:i] + kept[i + 1 :])))
        others = kept[:worst] + kept[worst + 1 :]
        if _p_larger(kept[worst], _pool(others)) >= OUTLIER_LEVEL / len(kept):
            break
        kept = others
    return _pool(kept) if kept else None


def is_like(own: SetLevel, between: BetweenVariance) -> bool:
    """Whether a comparison's sets scatter no more than the pool and its own rounds explain, by a one-sided F test."""
    return own.sets == 1 or _p_larger(own, between) >= UNLIKE_LEVEL


def is_noise_like(one: SetLevel, other: SetLevel) -> bool:
    """Whether two comparisons are as noisy as each other: in their rounds, and from set to set by a two-sided F test."""
    if not _is_as_noisy(one, other):
        return False
    if one.sets == 1 or other.sets == 1:
        return True
    small, large = sorted((one, other), key=lambda level: level.scatter)
    if small.scatter == 0.0:
        return large.scatter == 0.0
    return 2.0 * float(fdtrc(large.sets - 1, small.sets - 1, large.scatter / small.scatter)) >= ODD_SCATTER


def _is_as_noisy(level: SetLevel, own: SetLevel) -> bool:
    low, high = sorted((level.within, own.within))
    return high <= low * LIKE_ROUNDS**2


def _p_larger(own: SetLevel, between: BetweenVariance) -> float:
    expected = between.variance + own.within
    if expected == 0.0:
        return 1.0 if own.scatter == 0.0 else 0.0
    return float(fdtrc(own.sets - 1, between.df_with(own), own.scatter / expected))


def _pool(levels: Sequence[SetLevel]) -> BetweenVariance:
    """Means weighted by degrees of freedom, which stays unbiased where sets were added until a width was reached.

    (Wald's identity: the sum of squares and its degrees of freedom have proportional expectations at any
    stopping time.)
    """
    weights = np.array([level.sets - 1 for level in levels], dtype=np.float64)
    mean_square = float(np.average([level.scatter for level in levels], weights=weights))
    within = float(np.average([level.within for level in levels], weights=weights))
    return BetweenVariance(variance=max(0.0, mean_square - within), df=float(weights.sum()), mean_square=mean_square)
