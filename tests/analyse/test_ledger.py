"""Predictions compared with outcomes: only what stood before the measurement counts, and rates of few are none."""

from __future__ import annotations

import math

import msgspec
import pytest
from synthetic_run import BASELINE, Phase, Run, make_run, predict

from phasewise.analyse.ledger import LATE, score
from phasewise.records.base import Interval
from phasewise.records.ledger import RuleScore, Score
from phasewise.records.predict import Predicted, Prediction
from phasewise.store import digest


def told(low: float | None, high: float | None, *, phase: str = "a", finding: str = "launch-gaps") -> Prediction:
    return Prediction(
        phase=phase, case="main", variant=f"01-{phase}", parent=BASELINE, low=low, high=high, basis="critical-path",
        finding=finding,
    )  # fmt: skip


def foretell(run: Run, *predictions: Prediction, is_late: bool = False) -> None:
    """Put a record of the predict stage beside the measurement of 01-a, which was made with it unless it is late."""
    predicted = Predicted(workload="toy", run="full-h200", variant="01-a", plan="0", predictions=predictions)
    run.predicted["01-a"] = predicted
    stood = "" if is_late else digest(predicted)
    run.measurements["01-a"] = msgspec.structs.replace(run.measurements["01-a"], predicted=stood)


def test_inside_means_that_the_measured_estimate_is() -> None:
    wide = Interval(estimate=1.08, low=0.5, high=3.0)
    assert score(told(0.8, 1.0), wide).inside is False
    assert score(told(1.0, 1.1), wide).inside is True


def test_a_score_is_the_width_and_a_fine_for_the_distance() -> None:
    gain = Interval(estimate=2.0, low=1.9, high=2.1)
    hit, miss = score(told(1.0, 4.0), gain), score(told(1.0, 1.5), gain)
    assert hit.score == pytest.approx(math.log(4.0))
    assert miss.score == pytest.approx(math.log(1.5) + 10.0 * math.log(2.0 / 1.5))
    assert hit.guess_score == pytest.approx(math.log(20.0 / 0.8))
    assert miss.bias == pytest.approx(math.log(2.0 / math.sqrt(1.5)))


def test_what_stood_before_the_measurement_is_scored() -> None:
    run = make_run(Phase(name="a", speedup=2.0))
    foretell(run, told(1.8, 2.4), told(0.9, 1.1, finding="author"), told(None, None, finding="fusible-chain"))
    _, ledger = run.analyse()
    assert [(one.prediction.finding, one.inside) for one in ledger.scores] == [
        ("launch-gaps", True), ("author", False), ("fusible-chain", None),
    ]  # fmt: skip
    # what it claimed and what came is on record all the same: later predictions learn from it
    assert ledger.scores[-1].measured is not None
    row = run.rows()["a"]
    assert row.predicted is not None and row.predicted.finding != "author"


def test_what_was_written_after_the_measurement_is_not() -> None:
    run = make_run(Phase(name="a", speedup=2.0))
    foretell(run, told(1.8, 2.4), is_late=True)
    _, ledger = run.analyse()
    assert [(one.inside, one.void) for one in ledger.scores] == [(None, LATE)]


def test_without_a_record_of_its_own_a_prediction_is_as_the_parents_analysis_holds_it() -> None:
    run = make_run(Phase(name="a", speedup=2.0))
    run.analyses[BASELINE] = predict("a", "01-a", BASELINE, 1.8, 2.4)
    _, ledger = run.analyse()
    assert [(one.prediction.high, one.inside) for one in ledger.scores] == [(2.4, True)]
    foretell(run, told(2.5, 3.0))
    _, ledger = run.analyse()
    assert [(one.prediction.high, one.inside) for one in ledger.scores] == [(3.0, False)]


@pytest.mark.parametrize("phases", [9, 10])
def test_rates_of_fewer_than_ten_are_not_told(phases: int) -> None:
    names = [f"p{number}" for number in range(phases)]
    run = make_run(*(Phase(name=name, speedup=2.0, keep=False) for name in names))
    for number, name in enumerate(names, start=1):
        variant = f"{number:02d}-{name}"
        held = predict(name, variant, BASELINE, 1.8 if number > 2 else 3.0, 4.0).predictions
        before = run.analyses.get(BASELINE) or predict(name, variant, BASELINE, 1.0, 1.0)
        earlier = before.predictions if number > 1 else ()
        run.analyses[BASELINE] = msgspec.structs.replace(before, predictions=(*earlier, *held))
    _, ledger = run.analyse()
    (rule,) = ledger.rules
    assert (rule.outcomes, rule.predictions) == (phases, phases)
    if phases < 10:
        assert rule == RuleScore(finding="launch-gaps", outcomes=9, predictions=9)
        return
    assert rule.inside == 8 and rule.median_bias == pytest.approx(math.log(2.0 / math.sqrt(1.8 * 4.0)), abs=0.02)
    assert rule.score == pytest.approx(_mean(one.score for one in ledger.scores))
    assert rule.guess_score == pytest.approx(math.log(25.0))


def _mean(values) -> float:
    held = list(values)
    return sum(held) / len(held)


def test_a_score_without_an_outcome_is_none() -> None:
    assert score(told(1.0, 2.0), None) == Score(prediction=told(1.0, 2.0), measured=None, inside=None, bias=None)
