"""The ratio from several process sets: the trimmed mean of each, their mean, and both kinds of noise in the interval.

Model: round r of set k reads  d_kr = theta + b_k + e_kr.  b_k is what this set of fresh processes adds
(placement, autotuning, clocks; the effects of both arms, so b_k is the effect of the difference), e_kr the
noise of a round. Rounds shrink the second only. With m_k the trimmed mean of set k and v_k its squared standard
error, the variance of the mean over K sets is (var(b) + mean(v)) / K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from phasewise.stats.between import BetweenVariance, SetLevel, summarise_sets
from phasewise.stats.looks import StopRules, paid_error
from phasewise.stats.ratio import Method, RatioEstimate, make_estimate, t_quantile
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class _Error:
    """One way to put a standard error on the mean over the sets."""

    method: Method
    standard_error: float
    df: float
    spent: float
    between_variance: float | None

    @property
    def half_width(self) -> float:
        return t_quantile(self.spent, self.df) * self.standard_error


def estimate_ratio(
    sets: Sequence[Sequence[float]],
    *,
    level: float = 0.95,
    between: BetweenVariance | None = None,
    rules: StopRules | None = None,
) -> RatioEstimate:
    """The speed-up and its interval from paired log-ratios log(time(parent) / time(variant)), one list a set.

    `between`: what the run expects of it, from `learn_between`; its own sets moderate that. Without it the interval is
    Student's over the sets. `rules`: the stopping rules that these
    data were collected under, for which the interval pays; None if their amount was fixed. Raises ValueError
    for empty or non-finite input.
    """
    centres = [trimmed_mean(rounds) for rounds in sets]
    estimate = combine_sets(centres, level=level, between=between, rules=rules)
    return replace(estimate, nearest=nearest_round(sets))


def nearest_round(sets: Sequence[Sequence[float]]) -> float:
    """Size of the log-ratio of the round nearest to no effect; 0 where rounds lie on both sides of it, or there are none."""
    rounds = [value for taken in sets for value in taken]
    return max(0.0, min(rounds), -max(rounds)) if rounds else 0.0


def combine_sets(
    centres: Sequence[TrimmedMean],
    *,
    level: float = 0.95,
    between: BetweenVariance | None = None,
    rules: StopRules | None = None,
) -> RatioEstimate:
    """`estimate_ratio` from the trimmed mean of each set.

    Sets count alike, however many rounds they have: the noise between them does not shrink with rounds.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level of an interval is {level}; it must lie between 0 and 1, like 0.95")
    own = summarise_sets(centres)
    chosen = _choose_error(own, level=level, between=between, rules=rules)
    return make_estimate(
        own.mean,
        chosen.standard_error,
        chosen.df,
        level=level,
        spent=chosen.spent,
        method=chosen.method,
        rounds=sum(centre.rounds for centre in centres),
        sets=own.sets,
        within_sd=_round_sd(centres),
        between_sd=None if chosen.between_variance is None else math.sqrt(chosen.between_variance),
    )


def _choose_error(own: SetLevel, *, level: float, between: BetweenVariance | None, rules: StopRules | None) -> _Error:
    if between is not None and math.isfinite(own.within):
        return _moderated_error(own, between, level=level, rules=rules)
    spent = paid_error(rules, level=level)
    by_rounds = _Error(
        method="one-set" if own.sets == 1 else "own-sets",
        standard_error=math.sqrt(own.within / own.sets),
        df=own.within_df,
        spent=spent,
        between_variance=None if own.sets == 1 else _excess(own),
    )
    if own.sets == 1:
        return by_rounds
    by_sets = replace(by_rounds, standard_error=math.sqrt(own.scatter / own.sets), df=own.sets - 1)
    if by_rounds.df == 0 or by_rounds.half_width <= by_sets.half_width:
        return by_sets
    # three sets may agree by luck better than their rounds allow. The interval is that of the rounds then; its degrees
    # of freedom stay those of the sets, or small p-values would take luck for knowledge
    return replace(by_sets, standard_error=by_rounds.half_width / t_quantile(spent, by_sets.df))


def _moderated_error(own: SetLevel, between: BetweenVariance, *, level: float, rules: StopRules | None) -> _Error:
    variance, df = between.moderate(own)
    return _Error(
        method="moderated",
        standard_error=math.sqrt(variance / own.sets),
        df=df,
        # what the others teach is free of this one's looks
        spent=paid_error(rules, level=level, pooled_df=between.df),
        between_variance=max(0.0, variance - own.within),
    )


def _excess(own: SetLevel) -> float:
    """The scatter of the set means that their rounds do not explain; all of it where sets have one round."""
    return max(0.0, own.scatter - own.within) if math.isfinite(own.within) else own.scatter


def _round_sd(centres: Sequence[TrimmedMean]) -> float | None:
    """Standard deviation of a round as a trimmed mean sees it: standard error times the root of the rounds."""
    variances = [centre.variance * centre.rounds for centre in centres if centre.df > 0]
    return math.sqrt(math.fsum(variances) / len(variances)) if variances else None
