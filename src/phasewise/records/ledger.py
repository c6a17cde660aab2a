"""Records of the ledger: predictions beside their outcomes, and how well each rule has predicted."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Interval, Record
from phasewise.records.predict import Prediction


class Score(Record, frozen=True, kw_only=True):
    """A prediction compared with the outcome."""

    prediction: Prediction
    measured: Interval | None
    # whether the measured estimate lies in the predicted interval
    inside: bool | None
    # log of measured over the middle of the prediction
    bias: float | None
    # Winkler's score of the interval, and that of a constant guess; less is better
    score: float | None = None
    guess_score: float | None = None
    # why it does not count; "" where it does
    void: str = ""


class RuleScore(Record, frozen=True, kw_only=True):
    """How well one rule has predicted so far; rates are None where there are too few."""

    finding: str
    # phases that it spoke of and that were measured; of these it predicted
    outcomes: int
    predictions: int
    inside: int | None = None
    median_bias: float | None = None
    # means of the scores
    score: float | None = None
    guess_score: float | None = None


class Ledger(Record, frozen=True, kw_only=True):
    """Every prediction of a run with its score: a record of its own."""

    schema: int = SCHEMA
    workload: str
    run: str
    # chance that predicted intervals state and are scored by, what the constant guess always says, and how many make a rate
    level: float = 0.80
    guess: tuple[float, float] = (0.8, 20.0)
    least_outcomes: int = 10
    scores: tuple[Score, ...] = ()
    rules: tuple[RuleScore, ...] = ()
