from __future__ import annotations

import math
from dataclasses import replace

import pytest

from phasewise.stats.looks import StopRules
from phasewise.stats.ratio import RatioEstimate, make_estimate
from phasewise.stats.stopping import Continue, Standing, Stop, decide_next, is_precise

RULES = StopRules()
QUICK = StopRules(least_sets=1, most_sets=1)


def ratio(
    effect: float = 0.0, *, half_width: float, within_sd: float | None = 0.006, between_sd: float | None = 0.004
) -> RatioEstimate:
    # 1e9 degrees of freedom: the quantile is 1.96
    return make_estimate(
        effect,
        half_width / 1.959964,
        1e9,
        level=0.95,
        method="moderated",
        rounds=36,
        sets=3,
        within_sd=within_sd,
        between_sd=between_sd,
    )


def progress(sets: int, rounds: int, *, left: float = 1e6, a_set: float = 10.0, a_round: float = 1.0) -> Standing:
    return Standing(sets=sets, rounds=rounds, seconds_left=left, seconds_a_set=a_set, seconds_a_round=a_round)


PRECISE, WIDE = ratio(half_width=0.003), ratio(half_width=0.02)


def test_it_begins_with_a_fresh_set_of_the_least_rounds():
    assert decide_next([], rules=RULES, progress=progress(0, 0)) == Continue(where="fresh-set", rounds=12)


def test_a_set_short_of_its_least_rounds_is_filled_whatever_the_width():
    assert decide_next([PRECISE], rules=RULES, progress=progress(3, 7)) == Continue(where="this-set", rounds=5)


def test_precise_before_the_least_sets_is_not_enough():
    assert decide_next([PRECISE], rules=RULES, progress=progress(2, 12)) == Continue(where="fresh-set", rounds=12)
    assert decide_next([PRECISE], rules=RULES, progress=progress(3, 12)) == Stop(reason="precise")


def test_all_comparisons_must_be_precise():
    assert decide_next([PRECISE, WIDE], rules=RULES, progress=progress(3, 12)).where == "fresh-set"
    assert decide_next([PRECISE, PRECISE], rules=RULES, progress=progress(3, 12)) == Stop(reason="precise")


def test_a_large_effect_needs_only_a_quarter_of_itself():
    assert not is_precise(ratio(0.07, half_width=0.02), RULES)
    assert is_precise(ratio(0.09, half_width=0.02), RULES)
    assert is_precise(ratio(-0.09, half_width=0.02), RULES)


def test_an_infinite_interval_is_never_precise():
    assert not is_precise(ratio(half_width=math.inf), RULES)


def test_at_the_most_sets_it_stops_unresolved():
    assert decide_next([WIDE], rules=RULES, progress=progress(10, 60)) == Stop(reason="limit")


def test_noise_of_rounds_asks_for_rounds_and_noise_of_processes_for_sets():
    of_rounds = ratio(half_width=0.02, within_sd=0.02, between_sd=0.002)
    of_sets = ratio(half_width=0.02, within_sd=0.002, between_sd=0.02)
    assert decide_next([of_rounds], rules=RULES, progress=progress(3, 12)) == Continue(where="this-set", rounds=3)
    assert decide_next([of_sets], rules=RULES, progress=progress(3, 12)) == Continue(where="fresh-set", rounds=12)


def test_rounds_stop_at_the_optimum_of_two_stage_sampling():
    # 0.02 / 0.004 * sqrt(10 / 1) = 15.8 rounds
    noisy = ratio(half_width=0.02, within_sd=0.02, between_sd=0.004)
    assert decide_next([noisy], rules=RULES, progress=progress(3, 15)).where == "this-set"
    assert decide_next([noisy], rules=RULES, progress=progress(3, 18)).where == "fresh-set"
    # fresh sets that cost nothing extra are always the better buy
    assert decide_next([noisy], rules=RULES, progress=progress(3, 12, a_set=0.0)).where == "fresh-set"


def test_no_noise_between_sets_fills_the_set_to_its_most_rounds():
    calm = ratio(half_width=0.02, between_sd=0.0)
    assert decide_next([calm], rules=RULES, progress=progress(3, 58)) == Continue(where="this-set", rounds=2)
    assert decide_next([calm], rules=RULES, progress=progress(3, 60)).where == "fresh-set"


def test_with_one_set_only_rounds_are_added():
    first = replace(WIDE, between_sd=None)
    assert decide_next([first], rules=QUICK, progress=progress(1, 12)) == Continue(where="this-set", rounds=3)
    assert decide_next([first], rules=QUICK, progress=progress(1, 60)) == Stop(reason="limit")
    assert decide_next([PRECISE], rules=QUICK, progress=progress(1, 12)) == Stop(reason="precise")


@pytest.mark.parametrize(
    ("left", "expected"), [(22.0, Continue(where="fresh-set", rounds=12)), (21.9, Stop(reason="budget"))]
)
def test_a_fresh_set_is_begun_only_if_it_can_be_finished(left, expected):
    assert decide_next([WIDE], rules=RULES, progress=progress(3, 12, left=left)) == expected


def test_precise_wins_over_an_empty_budget():
    assert decide_next([PRECISE], rules=RULES, progress=progress(3, 12, left=0.0)) == Stop(reason="precise")
    assert decide_next([WIDE], rules=RULES, progress=progress(3, 12, left=0.0)) == Stop(reason="budget")


@pytest.mark.parametrize(("half_width", "clear"), [(0.4, True), (1.6, False)])
def test_rounds_far_from_no_effect_end_it_once_the_sets_agree_well_enough(half_width: float, clear: bool) -> None:
    rules = replace(RULES, clear=((math.log(1.5), 2),))
    at = replace(progress(2, 12), nearest=math.log(1.6))
    step = decide_next([ratio(-1.5, half_width=half_width)], rules=rules, progress=at)
    assert step == (Stop(reason="clear") if clear else Continue(where="fresh-set", rounds=12))
