"""What the rules have been worth: how far their claims lay from what was measured, in other workloads."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from phasewise.model.layout import Layout
from phasewise.records.base import Interval
from phasewise.records.errors import RecordError
from phasewise.records.ledger import Ledger
from phasewise.records.predict import Prediction
from phasewise.stats import interval_score, next_value
from phasewise.store import read

# an author's expectation stands in the ledger as a rule of its own
AUTHOR = "author"
# chance that a predicted interval states
LEVEL = 0.80
# what may always be said without a look at the profile; a rule that is no better says nothing
GUESS = (0.8, 20.0)
# fewer give neither a rate nor a width
LEAST_OUTCOMES = 10


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One claim of a rule whose phase was measured afterwards; both are logarithms of a speed-up."""

    workload: str
    rule: str
    # the middle of what the rule claimed
    claimed: float
    measured: float

    @property
    def miss(self) -> float:
        return self.measured - self.claimed


def read_ledgers(layout: Layout) -> tuple[Ledger, ...]:
    """The ledgers of all runs of the project; one that can't be read teaches nothing, and says so."""
    found = []
    for path in sorted(layout.root.glob("profiles/records/*/*/ledger.json")):
        try:
            found.append(read(path, Ledger))
        except RecordError as error:
            print(error, file=sys.stderr)
    return tuple(found)


def list_outcomes(ledgers: Iterable[Ledger]) -> tuple[Outcome, ...]:
    """The outcomes of all claims that rules made."""
    return tuple(
        Outcome(
            workload=ledger.workload,
            rule=score.prediction.finding,
            claimed=log_middle(*claim),
            measured=math.log(score.measured.estimate),
        )
        for ledger in ledgers
        for score in ledger.scores
        if score.prediction.finding != AUTHOR
        and score.measured is not None
        and (claim := claim_of(score.prediction)) is not None
    )


def claim_of(prediction: Prediction) -> tuple[float, float] | None:
    """What the rule read off the profile; where only an interval is on record, that is it."""
    if prediction.claim is not None:
        return prediction.claim.low, prediction.claim.high
    return bounds_of(prediction)


def bounds_of(prediction: Prediction) -> tuple[float, float] | None:
    """The predicted interval; None where nothing was predicted."""
    low, high = prediction.low, prediction.high
    return None if low is None or high is None else (low, high)


def log_middle(low: float, high: float) -> float:
    """The geometric middle, as a logarithm."""
    return (math.log(low) + math.log(high)) / 2.0


def score_interval(low: float, high: float, measured: float) -> float:
    """Winkler's score of an interval of speed-ups, on their logarithms; less is better."""
    return interval_score(math.log(low), math.log(high), math.log(measured), level=LEVEL)


def widen_claim(rule: str, claim: Interval, outcomes: Sequence[Outcome]) -> tuple[Interval | None, str]:
    """The interval that `claim` is worth by the outcomes of its rule; None and the reason where it is worth none."""
    own = [outcome for outcome in outcomes if outcome.rule == rule]
    if len(own) < LEAST_OUTCOMES:
        return None, f"{len(own)} outcomes of {rule} in other workloads are on record, {LEAST_OUTCOMES} are needed"
    scores = _score_rule(own)
    rules, guesses = (mean(found) for found in zip(*scores, strict=True)) if scores else (math.inf, 0.0)
    if rules >= guesses:
        told = f"{rules:.1f} against {guesses:.1f}" if scores else "all from one workload"
        low, high = GUESS
        return None, f"in other workloads {rule} was no better than always saying {low:g}x to {high:g}x (score {told})"
    low, high = _predict(log_middle(claim.low, claim.high), own)
    return Interval(estimate=math.exp((low + high) / 2.0), low=math.exp(low), high=math.exp(high)), ""


def _score_rule(own: Sequence[Outcome]) -> list[tuple[float, float]]:
    """Each outcome's score by the rule, as learnt from the other workloads, and by the constant guess.

    Phases of one workload are too much alike to test each other.
    """
    scores = []
    for outcome in own:
        others = [other for other in own if other.workload != outcome.workload]
        if len(others) > 1:
            bounds = (_predict(outcome.claimed, others), (math.log(GUESS[0]), math.log(GUESS[1])))
            rule, guess = (interval_score(low, high, outcome.measured, level=LEVEL) for low, high in bounds)
            scores.append((rule, guess))
    return scores


def _predict(claimed: float, own: Sequence[Outcome]) -> tuple[float, float]:
    low, high = next_value([outcome.miss for outcome in own], level=LEVEL)
    return claimed + low, claimed + high
