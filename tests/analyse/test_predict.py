"""A prediction is made from the parent's profile and gate and the machine's peaks, before any time of the child is known."""

from __future__ import annotations

import math

import msgspec
import pytest
from synthetic_profile import profile
from synthetic_run import BASELINE, GPU, Phase, Run, make_run

from phasewise.analyse import predict_variant
from phasewise.records.base import Interval
from phasewise.records.ledger import Ledger, Score
from phasewise.records.predict import Predicted, Prediction
from phasewise.records.profile import Breakdown, CaseProfile, Count, Probe, Profile
from phasewise.store import digest

# 1 ms untraced, 2 ms traced
IDLE = profile(
    breakdown=Breakdown(wall_s=2e-3, kernel_s=0.4e-3, launch_gap_s=1.2e-3, host_s=0.4e-3),
    count=Count(launches=100),
    overhead=2.0,
)


def teach(rule: str = "launch-gaps", *, times: float = 1.5, strays: float = 0.1, claim: float = 2.0) -> list[Ledger]:
    """Ledgers of three workloads in which what `rule` claimed came out `times` as large, give or take `strays`."""
    scores = [
        Score(
            prediction=Prediction(
                phase="x", case="main", variant="01-x", parent="00-baseline", low=None, high=None, basis="critical-path",
                finding=rule, claim=Interval(estimate=claim, low=claim / 1.1, high=claim * 1.1),
            ),
            measured=Interval(estimate=gain, low=gain, high=gain),
            inside=None,
            bias=None,
        )
        for gain in (claim * times * math.exp(strays * side) for side in (-1, 0, 0, 1))
    ]  # fmt: skip
    return [Ledger(workload=name, run="full-h200", scores=tuple(scores)) for name in ("one", "two", "three")]


def predict(
    run: Run, step: CaseProfile | None, ledgers: list[Ledger] | None = None, variant: str = "01-graph"
) -> Predicted:
    records = run.records()
    if step is not None:
        parent = run.plans[variant].parent or BASELINE
        records.add(
            Profile(
                workload="toy",
                run="full-h200",
                variant=parent,
                plan="0",
                machine=GPU.identity,
                commit="abc",
                cases=(step,),
            )
        )
    return predict_variant(records, variant, teach() if ledgers is None else ledgers)


def by_rule(found: Predicted) -> Prediction:
    (prediction,) = [one for one in found.predictions if one.finding != "author"]
    return prediction


def test_a_rule_predicts_as_wide_as_its_claims_have_lain_off_elsewhere() -> None:
    prediction = by_rule(predict(make_run(Phase(name="graph")), IDLE))
    assert prediction.claim is not None and prediction.level == 0.8
    # the untraced step of 1 ms: the kernels' 0.4 ms stay, and 100 nodes of the graph
    assert prediction.claim.high == pytest.approx(1 / (0.4 + 0.13), rel=0.02)
    # 12 outcomes, 1.5 times what was claimed: Student's interval of the next one
    middle = math.sqrt(prediction.claim.low * prediction.claim.high)
    sd = 0.1 * math.sqrt(6 / 11)
    half = 1.363 * sd * math.sqrt(1 + 1 / 12)
    assert prediction.low == pytest.approx(1.5 * middle * math.exp(-half), rel=1e-3)
    assert prediction.high == pytest.approx(1.5 * middle * math.exp(half), rel=1e-3)


def test_nothing_measured_changes_a_prediction() -> None:
    run = make_run(Phase(name="graph"))
    before = predict(run, IDLE)
    run.measurements.clear()
    assert predict(run, IDLE) == before


def test_the_workloads_own_outcomes_teach_nothing() -> None:
    ledgers = [msgspec.structs.replace(ledger, workload="toy") for ledger in teach()]
    prediction = by_rule(predict(make_run(Phase(name="graph")), IDLE, ledgers))
    assert prediction.low is None and prediction.claim is not None
    assert prediction.reason == "0 outcomes of launch-gaps in other workloads are on record, 10 are needed"


def scatter(ledgers: list[Ledger]) -> list[Ledger]:
    """The same outcomes of claims that lay anywhere between a seventh of 2x and seven times as much."""
    claims = [Interval(estimate=2 * off, low=2 * off, high=2 * off) for off in (0.14, 1.0, 1.0, 7.4)]

    def claim(score: Score, made: Interval) -> Score:
        return msgspec.structs.replace(score, prediction=msgspec.structs.replace(score.prediction, claim=made))

    return [msgspec.structs.replace(ledger, scores=tuple(map(claim, ledger.scores, claims))) for ledger in ledgers]


@pytest.mark.parametrize(
    "ledgers", [scatter(teach()), [msgspec.structs.replace(teach()[0], scores=3 * teach()[0].scores)]]
)
def test_a_rule_that_is_no_better_than_a_constant_guess_predicts_nothing(ledgers: list[Ledger]) -> None:
    prediction = by_rule(predict(make_run(Phase(name="graph")), IDLE, ledgers))
    assert (prediction.low, prediction.high, prediction.level) == (None, None, None)
    assert "no better than always saying 0.8x to 20x" in prediction.reason


def test_it_names_the_records_that_it_was_made_from() -> None:
    run = make_run(Phase(name="graph"))
    made_from = by_rule(predict(run, IDLE)).made_from
    assert digest(run.validations[BASELINE]) in made_from and len(made_from) == 2 + (GPU.peaks is not None)
    assert digest(run.measurements[BASELINE]) not in made_from


@pytest.mark.parametrize("step", [None, profile(), profile(graph_replay=True)])
def test_what_the_profile_does_not_show_is_not_predicted_from_it(step: CaseProfile | None) -> None:
    found = predict(make_run(Phase(name="graph", expect=(1.2, 3.0))), step)
    prediction = by_rule(found)
    assert (prediction.low, prediction.claim) == (None, None) and prediction.reason.startswith("launch-gaps: ")
    (author,) = [one for one in found.predictions if one.finding == "author"]
    assert (author.basis, author.low, author.high, author.level) == ("author", 1.2, 3.0, None)


def test_an_idea_is_the_authors_even_if_it_is_spelt_like_a_finding() -> None:
    found = predict(make_run(Phase(name="graph", is_idea=True, expect=(1.2, 3.0))), IDLE)
    assert [one.basis for one in found.predictions] == ["author"]


def test_a_probe_is_named_as_the_basis() -> None:
    probe = Probe(finding="launch-gaps", what="captured", now_s=1e-3, then_s=0.5e-3, calls=1)
    prediction = by_rule(predict(make_run(Phase(name="graph")), msgspec.structs.replace(IDLE, probes=(probe,))))
    assert prediction.basis == "probe" and prediction.claim is not None
    # the host's 1.6 of 2 ms shrink to 0.6 of the untraced 1 ms, of which the probe saves a half
    assert prediction.claim.low == pytest.approx(1 / (1 - 0.24), rel=0.01)
    assert prediction.claim.high == pytest.approx(1 / (1 - 0.33), rel=0.01)


def test_each_phase_is_predicted_from_its_own_parent() -> None:
    run = make_run(Phase(name="alternative", keep=False), Phase(name="graph"), Phase(name="later"))
    assert by_rule(predict(run, IDLE, variant="02-graph")).parent == BASELINE
    assert by_rule(predict(run, IDLE, variant="03-later")).parent == "02-graph"
