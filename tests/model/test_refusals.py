"""What the samples of a measurement amount to: rules on numbers, without a process."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from phasewise.model.refusals import find_refusal
from phasewise.records.measure import Arrival, CaseMeasurement, Inspection, Refresh, Round, Sample, ShortBlock
from phasewise.records.verdict import Reason

SETS = 3
STEPS = 4


def wobble(number: int, spread: float = 0.01) -> float:
    return 1 + spread * math.sin(7 * number)


def make(
    *, speed=2.0, way=1e-4, late_sets=SETS, refreshes=(), short_blocks=(), inspections=(), arrivals=()
) -> CaseMeasurement:
    """Twelve rounds a set; the variant is `speed` times as fast, and the parent's clock `way` seconds ahead of its own in so many sets."""
    rounds = []
    for process_set in range(SETS):
        for number in range(12):
            own = 0.02 / speed * wobble(number)
            ahead = way if process_set < late_sets else 1e-4
            samples = (
                Sample(
                    arm="parent", steps=10, wall_s=0.02 * wobble(number + 1), parent_s=0.02 * wobble(number + 1) + 1e-4
                ),
                Sample(arm="variant", steps=10, wall_s=own, parent_s=own + ahead),
            )
            rounds.append(Round(process_set=process_set, samples=samples))
    return CaseMeasurement(
        case="case", arms=(), rounds=tuple(rounds), refreshes=tuple(refreshes), short_blocks=tuple(short_blocks),
        inspections=tuple(inspections), arrivals=tuple(arrivals),
    )  # fmt: skip


def passes(sets=SETS, *, fresh=1.0, parent=1.0, pairs=8):
    """Passes over new contents that take `fresh` and `parent` times as long as the steps of long blocks, 1 ms and 2 ms."""
    return [
        Refresh(
            process_set=number, steps=STEPS, unit="s", fresh=4e-3 * fresh * wobble(pair), sham=4e-3 * fresh * wobble(pair + 3),
            parent=8e-3 * parent * wobble(pair + 5), at_once=True,
        )
        for number in range(sets) for pair in range(pairs)
    ]  # fmt: skip


def slower_on_new(times, sets, *, at_once=True):
    """The same, with shams that take a part of it in the first `sets` sets."""
    return [
        Refresh(
            process_set=one.process_set,
            steps=STEPS,
            unit="s",
            fresh=one.fresh,
            sham=one.sham / (times if one.process_set < sets else 1),
            at_once=at_once,
        )
        for one in passes()
    ]


def shrink(pair, factor):
    return msgspec.structs.replace(pair, fresh=factor * pair.fresh, sham=factor * pair.sham)


def counted(*, sham=100.0, many=100.0):
    return [
        Refresh(process_set=number, steps=STEPS, unit="operators", fresh=100.0, sham=sham, many=many)
        for number in range(SETS) for _ in range(2)
    ]  # fmt: skip


def arrive(*, own, sets=SETS, handing=4e-4, busy=1.0, steps=1, parent=2e-3):
    """Passes of steps that take the parent `parent` seconds, and of `own` seconds of the variant, which takes `handing` to hand over."""
    return [
        Arrival(arm=arm, process_set=number, steps=steps, whole_s=busy * (step + over) * (1 + part), handing_s=busy * over * (1 + part))
        for number in range(SETS) for arm, step, over in (("parent", parent, 4e-4), ("variant", own if number < sets else 2e-4, handing))
        for part in (0.3, 0.0, 4.0)
    ]  # fmt: skip


def short(*, first, step, sets=SETS):
    """Blocks of one and of four steps."""
    return [
        ShortBlock(arm="variant", process_set=number, steps=steps, wall_s=first + step * (steps - 1))
        for number in range(sets) for steps in (1, STEPS, 1)
    ]  # fmt: skip


def reason(measured: CaseMeasurement) -> Reason | None:
    found = find_refusal(measured)
    return None if found is None else found.reason


def test_one_set_tells_where_nothing_of_a_gain_is_left_on_new_contents() -> None:
    def tell(own: float) -> bool:
        measured = make(speed=10, arrivals=arrive(own=own))
        first = [taken for taken in measured.rounds if taken.process_set == 0]
        return find_refusal(msgspec.structs.replace(measured, rounds=tuple(first))) is not None

    assert [tell(0.2e-3), tell(1.5e-3), tell(1.9e-3)] == [False, False, True]


def test_who_computes_the_last_of_several_steps_alone_is_told_by_a_pass_of_one() -> None:
    several = arrive(own=2e-3, parent=8e-3, steps=4)
    assert reason(make(speed=1000, arrivals=several)) is None
    assert reason(make(speed=1000, arrivals=[*several, *arrive(own=2e-3)])) is Reason.REMEMBERS
    assert reason(make(speed=1000, arrivals=[*several, *arrive(own=1.5e-4)])) is None


def test_a_short_block_has_a_start_that_no_program_saves() -> None:
    # 3 ms of it, beside a step of 2 ms
    assert reason(make(speed=100, arrivals=arrive(own=3.02e-3, parent=5e-3))) is None
    assert reason(make(speed=100, arrivals=arrive(own=4.9e-3, parent=5e-3))) is Reason.REMEMBERS


def test_long_blocks_in_which_others_had_their_turns_do_not_tell_what_a_short_pass_would_save():
    """To ask for a block and to be told of its end takes 0.5 ms here, and 0.3 ms the parent's step, which takes 2 ms in long blocks."""
    asked = arrive(own=0.53e-3, parent=0.8e-3)
    assert reason(make(speed=10, arrivals=asked)) is Reason.REMEMBERS
    told = [msgspec.structs.replace(one, steps_s=0.3e-3) for one in asked]
    assert reason(make(speed=10, arrivals=told)) is None
    late = [msgspec.structs.replace(one, steps_s=0.3e-3) for one in arrive(own=0.78e-3, parent=0.8e-3)]
    assert reason(make(speed=10, arrivals=late)) is Reason.REMEMBERS


def test_as_much_as_the_parents_own_fastest_passes_differ_by_is_missed_by_nobody():
    def passes(apart_s):
        return [
            Arrival(arm=arm, process_set=number, steps=1, whole_s=2.4e-3 + later * apart * 1e-3, handing_s=4e-4)
            for number in range(SETS) for later in range(16) for arm, apart in (("parent", apart_s), ("variant", 0.0))
        ]  # fmt: skip

    assert reason(make(speed=10, arrivals=passes(0.0))) is Reason.REMEMBERS
    assert reason(make(speed=10, arrivals=passes(0.8))) is Reason.REMEMBERS
    assert reason(make(speed=10, arrivals=passes(1.0))) is None


def test_a_timed_result_that_is_wrong_is_refused_in_its_own_words():
    wrong = Inspection(arm="variant", process_set=1, is_known=True, worst=7.0, wrong="output 'y': it is off")
    found = find_refusal(make(inspections=[wrong]))
    assert found is not None and (found.reason, found.message) == (Reason.WRONG_WHEN_TIMED, "output 'y': it is off")
    assert reason(make(inspections=[Inspection(arm="parent", process_set=1, is_known=True, wrong="it is off")])) is None


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (make(), None),
        # the parent's clock
        (make(way=5e-3), Reason.STOPWATCH),
        (make(way=5e-3, late_sets=2), None),
        (make(way=8e-4), None),
        # new contents against the same ones
        (make(refreshes=passes()), None),
        (make(refreshes=slower_on_new(1.5, SETS)), Reason.REMEMBERS),
        (make(refreshes=slower_on_new(1.5, 2)), Reason.REMEMBERS),
        (make(refreshes=slower_on_new(1.5, 1)), None),
        (make(refreshes=slower_on_new(1.05, SETS)), None),
        # half as long again, which is less than a start and an end of a pass may take
        (make(refreshes=[shrink(pair, 1 / 50) for pair in slower_on_new(1.5, SETS)]), None),
        # one process had waited before its pass
        (make(refreshes=slower_on_new(1.5, SETS, at_once=False)), None),
        # a pass against a long block: this one computes each batch once a block
        (make(refreshes=passes(fresh=4.0)), Reason.REMEMBERS),
        (make(refreshes=passes(fresh=4.0, sets=1)), None),
        # where the parent's passes take longer too, it is the way there and back
        (make(refreshes=passes(fresh=4.0, parent=3.0)), None),
        (make(refreshes=passes(fresh=4.0, pairs=3)), None),
        # operators
        (make(refreshes=counted()), None),
        (make(refreshes=counted(sham=60.0)), Reason.REMEMBERS),
        (make(refreshes=counted(many=60.0)), Reason.REMEMBERS),
        (make(refreshes=counted(sham=95.0, many=95.0)), None),
        # from arrival to delivery: of 2 ms, of which steps of long blocks save 1.8, one may be missing
        (make(speed=10, arrivals=arrive(own=0.2e-3)), None),
        (make(speed=10, arrivals=arrive(own=1.1e-3)), None),
        (make(speed=10, arrivals=arrive(own=1.3e-3)), Reason.REMEMBERS),
        (make(speed=10, arrivals=arrive(own=2e-3, sets=2)), None),
        # everything takes three times as long as in long blocks
        (make(speed=10, arrivals=arrive(own=1e-3, busy=3.0)), None),
        (make(speed=10, arrivals=arrive(own=2e-3, busy=3.0)), Reason.REMEMBERS),
        # work in what is not timed
        (make(speed=10, arrivals=arrive(own=0.2e-3, handing=6e-3)), None),
        (make(speed=10, arrivals=arrive(own=0.2e-3, handing=8e-3)), Reason.REMEMBERS),
        # little was saved, or it is less than a pass may take more
        (make(speed=1.5, arrivals=arrive(own=2e-3)), None),
        (make(speed=0.5, arrivals=arrive(own=9e-3)), None),
        (make(speed=10, arrivals=arrive(own=2e-3, busy=0.1)), None),
        # long blocks of a program with state take 1 ms a step
        (make(short_blocks=short(first=3e-3, step=1e-3)), None),
        (make(short_blocks=short(first=3e-3, step=1.3e-3)), None),
        (make(short_blocks=short(first=3e-3, step=4e-3)), Reason.SKIPS_STEPS),
        (make(short_blocks=short(first=3e-3, step=4e-3, sets=1)), None),
    ],
)  # fmt: skip
def test_a_rule_speaks_where_it_should_and_only_there(measured, expected):
    assert reason(measured) is expected


@pytest.mark.parametrize(
    ("tenth", "sets", "way", "expected"),
    [
        (True, SETS, 0.12, Reason.STOPWATCH), (False, SETS, 0.12, None), (True, 1, 0.02, Reason.STOPWATCH), (True, 1, 0.12, None),
        (False, 1, 0.02, None),
    ],
)  # fmt: skip
def test_on_a_busy_machine_a_clock_that_decides_the_ratio_is_refused(tenth, sets, way, expected):
    """Answers take up to `way` seconds to come back, whoever they come from; a block of 200 ms is said to be one of 20."""
    rounds = []
    for process_set in range(sets):
        for number in range(12):
            ways = [way * (0.5 + 0.5 * math.sin(7 * number + arm)) for arm in range(2)]
            real = 0.2 * wobble(number)
            samples = (
                Sample(arm="parent", steps=10, wall_s=real, parent_s=real + ways[0]),
                Sample(arm="variant", steps=100, wall_s=real / 10 if tenth else real, parent_s=real + ways[1]),
            )
            rounds.append(Round(process_set=process_set, samples=samples))
    assert reason(msgspec.structs.replace(make(), rounds=tuple(rounds))) is expected


def test_an_arm_alone_on_a_busy_machine_has_no_late_clock():
    rounds = tuple(
        Round(process_set=number % 3, samples=(Sample(arm="variant", steps=10, wall_s=0.08, parent_s=0.085),))
        for number in range(12)
    )
    assert reason(msgspec.structs.replace(make(), rounds=rounds)) is None


def test_turns_of_other_processes_are_no_late_clock():
    """On a busy machine an answer comes at once or a turn of 15 ms later, by chance: of 500 honest comparisons none is refused."""
    chance = random.Random(0)
    for _ in range(500):
        rounds = []
        for _ in range(12):
            ways = [0.015 if chance.random() < 0.45 else 1e-4 for _ in range(2)]
            samples = (
                Sample(arm="parent", steps=10, wall_s=0.02, parent_s=0.02 + ways[0]),
                Sample(arm="variant", steps=100, wall_s=0.02, parent_s=0.02 + ways[1]),
            )
            rounds.append(Round(process_set=0, samples=samples))
        assert reason(msgspec.structs.replace(make(), rounds=tuple(rounds))) is None
