"""Prose follows from the verdict."""

from __future__ import annotations

import msgspec
import pytest

from phasewise.records.analyse import Control, Finding, PartResult, PeerRow
from phasewise.records.base import Interval
from phasewise.records.ledger import Score
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.report import claims, sentences
from report.make import limit_end, make_case, make_prediction, make_targets

GAIN = Interval(estimate=2.31, low=2.27, high=2.35)


def test_every_reason_status_level_and_outcome_has_its_words() -> None:
    assert set(sentences.REASONS) == set(Reason)
    assert set(sentences.STATUSES) == set(sentences.STATUS_TONES) == set(Status)
    assert set(sentences.LEVEL_WORDS) == set(sentences.LEVEL_TONES) == set(Level)
    assert set(sentences.OUTCOME_TONES) == set(Outcome)
    assert all(words for reason, words in sentences.REASONS.items() if reason != Reason.NONE)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("reason", list(Reason))
def test_every_verdict_makes_one_sentence(status: Status, reason: Reason) -> None:
    for gain in (None, GAIN):
        told = sentences.sentence(Verdict(status=status, reason=reason, over_parent=gain), None)
        assert told[0].isupper() or told[0].isdigit() or told[0] == "–"
        assert told.endswith(".") and ".." not in told and "None" not in told


def test_only_a_faster_verdict_claims_a_speed_up() -> None:
    faster = sentences.sentence(
        Verdict(status=Status.FASTER, reason=Reason.INTERVAL_CLEARS_FLOOR, over_parent=GAIN), "00-baseline"
    )
    assert (
        faster
        == "2.31× [2.27,\xa02.35] as fast as 00-baseline: the interval leaves out 1 and the estimate clears the noise limit of the A/A controls."
    )
    unsure = sentences.sentence(
        Verdict(status=Status.INCONCLUSIVE, reason=Reason.NEIGHBOUR, over_parent=GAIN), "00-baseline"
    )
    assert unsure.startswith("Can't be told from 00-baseline")


def test_a_wanted_refusal_is_no_bad_news() -> None:
    assert sentences.tone(Verdict(status=Status.INVALID, reason=Reason.EXPECTED_INVALID)) == "muted"
    assert sentences.tone(Verdict(status=Status.INVALID, reason=Reason.RED_GATE)) == "bad"
    assert sentences.tone(Verdict(status=Status.INVALID, reason=Reason.ALARM_NOT_REFUSED)) == "bad"


@pytest.mark.parametrize(
    ("status", "bounds", "words"),
    [
        (Status.SLOWER, (6.7, 6.6, 6.8), "We are"),
        (Status.FASTER, (0.8, 0.7, 0.9), "It is faster"),
        (Status.SAME, (1.0, 0.995, 1.005), "Neither"),
        # the floor may not allow what the bound does
        (Status.INCONCLUSIVE, (1.8, 1.7, 1.9), "The two can't be told apart"),
    ],
)
def test_a_peer_is_told_by_its_verdict(status: Status, bounds: tuple[float, float, float], words: str) -> None:
    estimate, low, high = bounds
    row = PeerRow(
        name="other", version="1", variant="stack", verdict=Verdict(status=status), validation=Outcome.PASS,
        ratio=Interval(estimate=estimate, low=low, high=high),
    )  # fmt: skip
    assert sentences.peer(row).startswith(words)


def test_a_finding_says_what_it_holds_or_why_it_abstains() -> None:
    found = Finding(finding="launch-gaps", outcome="found", seconds=3.1e-3, share=0.58, gain=GAIN)
    assert "3.10\xa0ms" in sentences.finding(found) and "58\xa0%" in sentences.finding(found)
    assert sentences.finding(Finding(finding="x", outcome="abstained", reason="no trace.")) == "Abstained: no trace."
    assert sentences.finding(Finding(finding="x", outcome="absent")) == "Looked for, and not there."


def test_a_target_without_a_value_gives_its_reason() -> None:
    told = [sentences.target(one) for one in make_targets()]
    assert told[0] == "1.31\xa0ms [1.30,\xa01.32]"
    assert told[1] == "10.4× [10.2,\xa010.6]"
    assert told[2] == "46\xa0%"
    assert told[3] == "the check did not run at this size"


def test_a_target_that_no_claim_reaches_gives_value_and_reason() -> None:
    missed = msgspec.structs.replace(make_targets()[1], level=Level.MISSED, reason="no gain can be claimed")
    assert sentences.target(missed) == "10.4× [10.2,\xa010.6]; no gain can be claimed"


def test_every_level_has_its_words_and_its_tone() -> None:
    assert sentences.LEVEL_WORDS.keys() == sentences.LEVEL_TONES.keys() == set(Level)
    assert len(set(sentences.LEVEL_WORDS.values())) == len(Level)


def test_a_part_that_ends_in_no_claim_says_so() -> None:
    part = PartResult(part="one", variant="a", speedup=GAIN, level=Level.NONE, status=Status.INCONCLUSIVE)
    assert "can't be told from the baseline, 2.31×" in sentences.part_sentence(part)
    assert "2.31× [2.27,\xa02.35] as fast" in sentences.part_sentence(
        msgspec.structs.replace(part, status=Status.FASTER)
    )


def test_the_headline_says_why_its_number_is_no_claim() -> None:
    case = make_case("forward")
    assert (claims.headline_tone(case), claims.no_claim(case)) == ("good", "")
    control = Control(variant="a", ratio=None, floor=3.618, covers_zero=False)
    silent = Control(variant="a", ratio=GAIN, floor=None, covers_zero=False)
    for status, reason, floor, tone, words in (
        (Status.SLOWER, Reason.INTERVAL_CLEARS_FLOOR, control, "bad", ""),
        (Status.BASELINE, Reason.NONE, control, "warn", ""),
        (Status.SAME, Reason.WITHIN_ONE_PERCENT, control, "warn", "Not a gain: the whole interval"),
        (Status.INCONCLUSIVE, Reason.BELOW_FLOOR, control, "warn", "Not a claim: A/A controls as noisy as it differ by up to 362\xa0%."),
        (Status.INCONCLUSIVE, Reason.BELOW_FLOOR, None, "warn", "Not a claim: without an A/A control"),
        (Status.INCONCLUSIVE, Reason.BELOW_FLOOR, silent, "warn", "Not a claim: its A/A control has one set of processes"),
        (Status.INCONCLUSIVE, Reason.NEIGHBOUR, control, "warn", "Not a claim: other processes were busy"),
        (None, Reason.NONE, control, "warn", "Not a claim: the analysis on record"),
    ):  # fmt: skip
        told = msgspec.structs.replace(
            case,
            stack_status=status,
            stack_reason=reason,
            control=floor,
            baseline_control=None,
            rows=limit_end(case, 3.618),
        )
        assert claims.headline_tone(told) == tone, status
        assert claims.no_claim(told).startswith(words) and bool(words) == bool(claims.no_claim(told)), status


@pytest.mark.parametrize(("inside", "words"), [(True, "inside"), (False, "outside"), (None, "nothing was predicted")])
def test_a_score_is_told_from_its_record(inside: bool | None, words: str) -> None:
    told = make_prediction("forward", "05-cuda-graph", "00-baseline")
    score = Score(prediction=told, measured=GAIN, inside=inside, bias=0.1)
    assert sentences.scored(score).startswith(words)
    assert sentences.scored(msgspec.structs.replace(score, void="late")) == "late"


def test_a_rule_that_predicts_nothing_says_why() -> None:
    told = make_prediction("forward", "05-cuda-graph", "00-baseline")
    assert sentences.predicted(told) == "3.1 to 5×, from the critical path of the trace"
    stated = msgspec.structs.replace(told, level=0.8)
    assert sentences.predicted(stated) == "3.1 to 5× (80\xa0% interval), from the critical path of the trace"
    silent = msgspec.structs.replace(told, low=None, high=None, reason="3 outcomes of it, 10 are needed")
    assert sentences.predicted(silent) == "nothing: 3 outcomes of it, 10 are needed"
    assert sentences.prediction(silent) == "–"
