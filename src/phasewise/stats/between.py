"""The variance between process sets, moderated over the comparisons of a run.

Three sets leave two degrees of freedom, so alone they could never support a small claim. What fresh processes
do to a ratio is mostly the machine's doing, and a run has many comparisons to learn it from. How far that goes is
learnt too: variances of comparisons are taken as drawn from a scaled inverse chi-square law, whose degrees of freedom
are what the others are worth to each (empirical Bayes; Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3, article 3). Where
they are alike a comparison gains as many; where they are not it is left with little more than its own, and nothing
is ever tested first and pooled then.

What is noisy from round to round is noisy from process to process: a kernel that fills the device repeats to a few
tenths of a per cent, a loop of launches waits for the host. So a comparison borrows only from those whose rounds are
about as noisy as its own; on an H200 one run held set scatters of 0.1 % and of 30 %, side by side.

Two choices differ from Smyth's. The law's scale is the mean variance and not the geometric one, which a few loud
comparisons hardly move: with it quiet looking ones among them were called FASTER in one run of six. And its degrees
of freedom come from the mean of the log variances, not from their variance: with two degrees of freedom each, the
first has a third of the sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from phasewise.stats.ratio import satterthwaite
from phasewise.stats.special import digamma, fdtrc
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean

# never more from the others than so many degrees of freedom: a law of noise is a guess, and own sets must still count
MOST_PRIOR_DF = 32.0
# where the mean of the law is finite at all
LEAST_PRIOR_DF = 2.0
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
    """What a comparison may expect of the noise between its process sets before it has seen them."""

    # of the process effects alone, never negative
    variance: float
    # degrees of freedom that this is worth
    df: float

    def moderate(self, own: SetLevel) -> tuple[float, float]:
        """The variance of a set's mean and its degrees of freedom: what was expected and what was seen, by their weights.

        Never less than the rounds explain. Source: Smyth (2004), section 3.
        """
        seen_df = own.sets - 1
        total = self.df * (self.variance + own.within) + (seen_df * own.scatter if seen_df else 0.0)
        return max(total / (self.df + seen_df), own.within), self.df + seen_df


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


def measure_level(sets: Sequence[Sequence[float]]) -> SetLevel:
    """`summarise_sets` of paired log-ratios, one list a process set."""
    return summarise_sets([trimmed_mean(rounds) for rounds in sets])


def learn_between(own: SetLevel, levels: Sequence[SetLevel]) -> BetweenVariance | None:
    """What the comparisons of a run, `levels`, teach one of them; None where no two are as noisy as it in their rounds.

    The comparisons must not share processes: of ratios that share an arm (variant over parent, variant over baseline)
    give one, or the degrees of freedom are overstated. Means are weighted by degrees of freedom, which stays unbiased
    where sets were added until a width was reached (Wald's identity: a sum of squares and its degrees of freedom have
    proportional expectations at any stopping time).
    """
    like = [level for level in levels if level.sets > 1 and math.isfinite(level.within) and _is_as_noisy(level, own)]
    if len(like) < 2:
        return None
    df = sum(level.sets - 1 for level in like)
    mean_square, within = (
        math.fsum((level.sets - 1) * value(level) for level in like) / df
        for value in (lambda level: level.scatter, lambda level: level.within)
    )
    variance = max(0.0, mean_square - within)
    # the scale of the law is known from `df` alone, so that no more can be borrowed than that
    return BetweenVariance(variance=variance, df=1.0 / (1.0 / _find_prior_df(like, variance) + 1.0 / df))


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


def _find_prior_df(levels: Sequence[SetLevel], variance: float) -> float:
    """Degrees of freedom of the law that variances of these comparisons follow about `variance` and their rounds'.

    By moments: how far the mean of the log variances stays below the log of their mean, more than for chi-squares
    of one scale (Bartlett's statistic), is what the law's own spread adds.
    """
    expected = [variance + level.within for level in levels]
    if all(value == 0.0 for value in expected):
        return MOST_PRIOR_DF
    dfs = [level.sets - 1 for level in levels]
    shares = [level.scatter / value if value else 0.0 for level, value in zip(levels, expected, strict=True)]
    if min(shares) == 0.0:
        return LEAST_PRIOR_DF
    total = sum(dfs)
    mean = math.log(math.fsum(df * share for df, share in zip(dfs, shares, strict=True)) / total) - _log_bias(total)
    mean_log = math.fsum(df * (math.log(s) - _log_bias(df)) for df, s in zip(dfs, shares, strict=True)) / total
    excess = mean - mean_log
    low, high = LEAST_PRIOR_DF, MOST_PRIOR_DF
    if excess <= _log_gap(high):
        return high
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_gap(middle) > excess else (low, middle)
    return low


def _log_gap(df: float) -> float:
    """Log of the mean less mean of the log, of a scaled inverse chi-square value; falls from infinity at two."""
    return math.log(df / (df - 2.0)) + _log_bias(df)


@cache
def _log_bias(df: float) -> float:
    """Mean of the log of a chi-square over its degrees of freedom."""
    return float(digamma(df / 2.0)) - math.log(df / 2.0)
