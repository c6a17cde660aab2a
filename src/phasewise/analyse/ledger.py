"""Hold predictions against what was measured: the record that says which rule to believe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median

from msgspec.structs import replace

from phasewise.analyse.experience import GUESS, LEAST_OUTCOMES, LEVEL, bounds_of, log_middle, score_interval
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.base import Interval
from phasewise.records.ledger import Ledger, RuleScore, Score
from phasewise.records.predict import Predicted, Prediction
from phasewise.run import Run
from phasewise.store import digest

LATE = "not the prediction that stood before it was measured"


def find_predictions(run: Run) -> dict[Prediction, str]:
    """All predictions of a run, each with why it does not count; "" where it does.

    Those of a variant without a record of the stage are the ones that its parent's analysis holds, as they were recorded.
    """
    held = [one for record in run.find_all(VariantAnalysis).values() for one in record.predictions]
    found: dict[Prediction, str] = {}
    for variant in run.phases:
        predicted, measured = run.find(Predicted, variant), run[variant].measure
        if predicted is None:
            found |= dict.fromkeys((one for one in held if one.variant == variant), "")
            continue
        stood = measured is None or measured.predicted == digest(predicted)
        found |= dict.fromkeys(predicted.predictions, "" if stood else LATE)
    return found


def score_predictions(
    run: Run, predictions: Mapping[Prediction, str], measured: Mapping[Prediction, Interval]
) -> Ledger:
    """Every prediction with its score; `measured` holds the speed-ups over the parents that were predicted from."""
    scores = tuple(score(one, measured.get(one), void) for one, void in predictions.items())
    rules = tuple(_sum_up(rule, scores) for rule in dict.fromkeys(score.prediction.finding for score in scores))
    return Ledger(
        workload=run.workload, run=run.name, level=LEVEL, guess=GUESS, least_outcomes=LEAST_OUTCOMES, scores=scores, rules=rules
    )  # fmt: skip


def score(prediction: Prediction, measured: Interval | None, void: str = "") -> Score:
    """Inside if the measured estimate is; bias is the log of measured over the geometric middle of the prediction."""
    bounds = bounds_of(prediction)
    if measured is None or bounds is None or void:
        return Score(prediction=prediction, measured=measured, inside=None, bias=None, void=void)
    low, high = bounds
    return Score(
        prediction=prediction,
        measured=measured,
        inside=low <= measured.estimate <= high,
        bias=math.log(measured.estimate) - log_middle(low, high),
        score=score_interval(low, high, measured.estimate),
        guess_score=score_interval(*GUESS, measured.estimate),
    )


def _sum_up(rule: str, scores: Sequence[Score]) -> RuleScore:
    """Only predictions with an outcome count; rates of few are none."""
    own = [score for score in scores if score.prediction.finding == rule]
    scored = [score for score in own if score.inside is not None]
    rates = RuleScore(
        finding=rule, outcomes=sum(score.measured is not None for score in own), predictions=len(scored)
    )  # fmt: skip
    if len(scored) < LEAST_OUTCOMES:
        return rates
    return replace(
        rates,
        inside=sum(score.inside is True for score in scored),
        median_bias=median(score.bias for score in scored if score.bias is not None),
        score=mean(score.score for score in scored if score.score is not None),
        guess_score=mean(score.guess_score for score in scored if score.guess_score is not None),
    )
