from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from phasewise.records.verdict import Reason, Status
from phasewise.stats.bimodal import Modes
from phasewise.stats.chances import Chances, adjust_chances, find_chances
from phasewise.stats.ratio import RatioEstimate, make_estimate
from phasewise.stats.sets import estimate_ratio
from phasewise.stats.verdict import Conditions, Decision, ReasonName, StatusName, decide_status


def ratio(
    gain: float, *, half_width: float, sets: int = 3, within_sd: float | None = 0.006, between_sd: float | None = 0.004
) -> RatioEstimate:
    """A speed-up of 1 + gain with this half-width of the log-ratio at 95 %."""
    return make_estimate(
        math.log1p(gain),
        half_width / 1.959964,
        1e9,
        level=0.95,
        method="moderated",
        rounds=12 * sets,
        sets=sets,
        within_sd=within_sd,
        between_sd=between_sd,
    )


def status(*args, **kwargs) -> tuple[str, str]:
    kwargs.setdefault("aa_floor", 0.004)
    decision = decide_status(*args, **kwargs)
    return decision.status, decision.reason


def test_the_words_are_those_of_the_records():
    assert set(get_args(StatusName)) <= {str(member) for member in Status}
    assert set(get_args(ReasonName)) <= {str(member) for member in Reason}


def test_a_clear_gain_is_faster_and_a_clear_loss_slower():
    assert status(ratio(0.02, half_width=0.005)) == ("FASTER", "interval-clears-floor")
    assert status(ratio(-0.02, half_width=0.005)) == ("SLOWER", "interval-clears-floor")


def test_a_tight_interval_about_one_is_same():
    assert status(ratio(0.001, half_width=0.006)) == ("SAME", "within-one-percent")


def test_same_needs_the_ninety_per_cent_interval_within_one_per_cent():
    # 1.645 / 1.96 * half_width against log(1.01) = 0.00995
    assert status(ratio(0.0, half_width=0.0117))[0] == "SAME"
    assert status(ratio(0.0, half_width=0.0120))[0] == "INCONCLUSIVE"


def test_a_gain_below_the_floor_is_no_claim():
    assert status(ratio(0.03, half_width=0.005), aa_floor=0.04) == ("INCONCLUSIVE", "below-aa-floor")
    assert status(ratio(0.006, half_width=0.002), aa_floor=0.008) == ("SAME", "within-one-percent")


def test_without_a_control_only_effects_over_ten_per_cent_are_claimed():
    assert status(ratio(0.09, half_width=0.005), aa_floor=None) == ("INCONCLUSIVE", "below-aa-floor")
    assert status(ratio(0.11, half_width=0.005), aa_floor=None)[0] == "FASTER"


def test_an_open_result_names_the_noise_that_dominates():
    of_sets = ratio(0.01, half_width=0.02, within_sd=0.002, between_sd=0.02)
    of_rounds = ratio(0.01, half_width=0.02, within_sd=0.06, between_sd=0.002)
    assert status(of_sets) == ("INCONCLUSIVE", "process-spread")
    assert status(of_rounds) == ("INCONCLUSIVE", "few-rounds")


def test_one_round_is_never_a_claim():
    assert status(estimate_ratio([[5.0]]), aa_floor=0.0) == ("INCONCLUSIVE", "few-rounds")


def test_identical_rounds_are_decided_by_the_floor_alone():
    assert status(estimate_ratio([[0.05] * 12] * 3))[0] == "FASTER"
    assert status(estimate_ratio([[0.0] * 12] * 3)) == ("SAME", "within-one-percent")


def test_the_other_comparisons_take_a_claim_back_but_not_the_interval():
    borderline = ratio(0.012, half_width=0.011)
    assert borderline.low > 1.0
    assert status(borderline)[0] == "FASTER"
    assert status(borderline, adjusted=Chances(differs=0.05, same=1.0))[0] == "FASTER"
    assert status(borderline, adjusted=Chances(differs=0.2, same=1.0)) == ("INCONCLUSIVE", "multiplicity")


def test_rounds_that_are_all_beyond_what_processes_do_are_no_chance_among_many():
    lost = Chances(differs=1.0, same=1.0)
    assert status(replace(ratio(3.3, half_width=1.2), nearest=math.log(26)), adjusted=lost)[0] == "FASTER"
    assert status(replace(ratio(-0.8, half_width=1.2), nearest=math.log(26)), adjusted=lost)[0] == "SLOWER"
    assert status(replace(ratio(3.3, half_width=1.2), nearest=math.log(2.9)), adjusted=lost)[1] == "multiplicity"
    # alone it is nothing either
    assert status(replace(ratio(3.3, half_width=3.4), nearest=math.log(26)), adjusted=lost)[0] == "INCONCLUSIVE"


def test_multiplicity_is_the_reason_only_where_it_alone_decides():
    lost = Chances(differs=1.0, same=1.0)
    assert status(ratio(0.0, half_width=0.005)) == ("SAME", "within-one-percent")
    assert status(ratio(0.0, half_width=0.005), adjusted=lost) == ("INCONCLUSIVE", "multiplicity")
    assert status(ratio(0.03, half_width=0.005), aa_floor=0.04, adjusted=lost)[1] == "below-aa-floor"
    assert status(ratio(0.03, half_width=0.05), adjusted=lost)[1] in ("few-rounds", "process-spread")
    # half a per cent, well known: no difference among so many, and yet the same
    assert status(ratio(0.005, half_width=0.004), adjusted=Chances(differs=0.2, same=0.01))[0] == "SAME"


def test_a_report_corrects_differences_and_equivalences_apart():
    gain, same = ratio(0.012, half_width=0.011), ratio(0.0, half_width=0.005)
    (first, second), (third,) = adjust_chances([[gain, same], [same]])
    # of two in two families
    assert first.differs == pytest.approx(4 * find_chances(gain).differs)
    assert third.same == pytest.approx(2 * find_chances(same).same)
    # the other family is claimed whole and leaves its share
    assert second.same == pytest.approx(2 * find_chances(same).same)


def test_one_set_of_processes_claims_nothing_below_three():
    def alone(gain: float) -> tuple[str, str]:
        return status(estimate_ratio([np.log1p(gain) + np.linspace(-0.01, 0.01, 12)]))

    assert alone(1.0) == ("INCONCLUSIVE", "one-set")
    assert alone(-0.5) == ("INCONCLUSIVE", "one-set")
    assert alone(0.0)[0] == "INCONCLUSIVE"
    # the estimate is beyond, its interval is not
    assert alone(2.005) == ("INCONCLUSIVE", "one-set")
    assert alone(2.2)[0] == "FASTER"
    assert alone(-0.7)[0] == "SLOWER"


def test_a_process_parked_in_its_slow_mode_is_no_gain():
    """Processes that start 1.45 times as slow in a third of cases: of one set alone nearly half would be claims."""
    rng = np.random.default_rng(0)
    slow = rng.random((500, 2)) < 1 / 3
    shifts = math.log(1.45) * (slow[:, 0].astype(float) - slow[:, 1])
    ratios = [estimate_ratio([shift + rng.normal(0.0, 0.005, 12)]) for shift in shifts]
    assert np.mean([not ratio.low <= 1.0 <= ratio.high for ratio in ratios]) > 0.4
    assert not any(status(ratio)[0] in ("FASTER", "SLOWER", "SAME") for ratio in ratios)


def test_a_gain_that_vanishes_in_cycles_is_the_clocks():
    gain = ratio(0.03, half_width=0.005)
    assert status(gain, cycles=ratio(0.029, half_width=0.006))[0] == "FASTER"
    assert status(gain, cycles=ratio(0.001, half_width=0.005)) == ("INCONCLUSIVE", "clock")
    assert status(gain, cycles=ratio(-0.03, half_width=0.005)) == ("INCONCLUSIVE", "clock")
    assert status(ratio(0.0, half_width=0.005), cycles=gain) == ("INCONCLUSIVE", "clock")


def test_an_open_result_keeps_its_own_reason_in_cycles():
    assert status(ratio(0.01, half_width=0.02), cycles=ratio(0.03, half_width=0.005))[1] != "clock"


def test_a_neighbour_or_many_drops_override_everything():
    huge = ratio(4.0, half_width=0.005)
    assert status(huge, conditions=Conditions(has_neighbour=True)) == ("INCONCLUSIVE", "neighbour")
    assert status(huge, conditions=Conditions(dropped_share=0.21)) == ("INCONCLUSIVE", "throttled")
    assert status(huge, conditions=Conditions(dropped_share=0.20))[0] == "FASTER"


@pytest.mark.parametrize(
    ("gain", "low", "high", "expected"),
    [
        (0.05, -0.01, 0.11, "INCONCLUSIVE"),
        (0.05, 0.03, 0.07, "FASTER"),
        (-0.05, -0.11, 0.01, "INCONCLUSIVE"),
        (-0.05, -0.07, -0.03, "SLOWER"),
        (0.0, -0.004, 0.004, "SAME"),
        (0.0, -0.03, 0.03, "INCONCLUSIVE"),
    ],
)
def test_two_modes_matter_where_they_would_get_different_statuses(gain, low, high, expected):
    conditions = Conditions(modes=Modes(low=low, high=high, high_share=0.5, explained=0.97))
    decision = decide_status(ratio(gain, half_width=0.005), aa_floor=0.004, conditions=conditions)
    assert decision.status == expected
    assert (decision.reason == "bimodal") == (expected == "INCONCLUSIVE")


def test_swapping_the_arms_swaps_faster_and_slower():
    swapped = {"FASTER": "SLOWER", "SLOWER": "FASTER"}
    for gain in (-0.05, -0.008, 0.0, 0.004, 0.02, 0.3):
        for half_width in (0.001, 0.006, 0.05):
            there = decide_status(ratio(gain, half_width=half_width), aa_floor=0.005)
            back = decide_status(ratio(1.0 / (1.0 + gain) - 1.0, half_width=half_width), aa_floor=0.005)
            assert back == Decision(status=swapped.get(there.status, there.status), reason=there.reason)


def test_a_gain_that_a_warm_up_may_have_made_is_none():
    small, large = ratio(0.01, half_width=0.004), ratio(0.05, half_width=0.004)
    warming = Conditions(warming=0.012)
    assert status(small, conditions=warming) == ("INCONCLUSIVE", "warm-up")
    assert status(large, conditions=warming)[0] == "FASTER"
    assert status(ratio(0.0, half_width=0.001), conditions=warming) == ("INCONCLUSIVE", "warm-up")
    assert status(ratio(0.0, half_width=0.001), conditions=Conditions(warming=0.002))[0] == "SAME"


def test_few_sets_alone_claim_nothing_that_a_jump_of_processes_could_be():
    own = replace(ratio(0.03, half_width=0.004), method="own-sets")
    jumps = Conditions(jumps=0.04)
    assert status(own, conditions=jumps) == ("INCONCLUSIVE", "bistable")
    # what was learnt from the others knows of their jumps
    assert status(ratio(0.03, half_width=0.004), conditions=jumps)[0] == "FASTER"
    assert status(replace(own, estimate=1.05), conditions=jumps)[0] == "FASTER"


def test_two_states_are_the_reason_where_spread_would_be():
    vague = ratio(0.03, half_width=0.05)
    assert status(vague) == ("INCONCLUSIVE", "process-spread")
    assert status(vague, conditions=Conditions(bistable=True)) == ("INCONCLUSIVE", "bistable")
    assert status(ratio(0.03, half_width=0.004), conditions=Conditions(bistable=True))[0] == "FASTER"
