"""Hold predictions against what was measured: the record that says which rule to believe."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median

from phasewise.records.analyse import Ledger, Prediction, RuleScore, Score
from phasewise.records.base import Interval


def score_predictions(
    workload: str, run: str, predictions: Iterable[Prediction], measured: Mapping[tuple[str, str], Interval]
) -> Ledger:
    """Every prediction with its score. `measured` maps (case, variant) to the speed-up over the parent."""
    scores = tuple(score(prediction, measured.get((prediction.case, prediction.variant))) for prediction in predictions)
    rules = tuple(_sum_up(rule, scores) for rule in dict.fromkeys(score.prediction.finding for score in scores))
    return Ledger(workload=workload, run=run, scores=scores, rules=rules)


def score(prediction: Prediction, measured: Interval | None) -> Score:
    """Covered if the two intervals meet; bias is the log of measured over the geometric middle of the prediction."""
    if measured is None:
        return Score(prediction=prediction, measured=None, covered=None, bias=None)
    middle = math.sqrt(prediction.low * prediction.high)
    return Score(
        prediction=prediction,
        measured=measured,
        covered=measured.low <= prediction.high and prediction.low <= measured.high,
        bias=math.log(measured.estimate / middle),
    )


def _sum_up(rule: str, scores: tuple[Score, ...]) -> RuleScore:
    """Only predictions with an outcome count; an author's are a rule of their own."""
    scored = [score for score in scores if score.prediction.finding == rule and score.covered is not None]
    biases = [score.bias for score in scored if score.bias is not None]
    return RuleScore(
        finding=rule,
        predictions=len(scored),
        covered=sum(bool(score.covered) for score in scored),
        median_bias=median(biases) if biases else None,
    )
