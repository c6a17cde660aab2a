"""Which rounds do not count."""

from __future__ import annotations

from phasewise.measure.drops import mark_drops
from phasewise.records.measure import Round, Sample


def make_rounds(count: int, changed: int, *, parent: dict[str, float | int], both: bool = False) -> list[Round]:
    """Rounds at 1900 and 1500 MHz without throttling; one of them has other sensors."""
    rounds = []
    for number in range(count):
        fields = {
            "parent": {"sm_clock_mhz": 1900.0, "throttle_bits": 0},
            "variant": {"sm_clock_mhz": 1500.0, "throttle_bits": 4},
        }
        if number == changed:
            fields["parent"] |= parent
            if both:
                fields["variant"] |= parent
        samples = tuple(Sample(arm=arm, steps=1, wall_s=1.0, **sensors) for arm, sensors in fields.items())
        rounds.append(Round(process_set=0, samples=samples))
    return rounds


def dropped(rounds: list[Round]) -> list[int]:
    return [number for number, taken in enumerate(mark_drops(rounds)) if taken.dropped]


def test_an_arm_is_held_against_its_own_clock_not_against_the_others() -> None:
    assert dropped(make_rounds(12, -1, parent={})) == []


def test_a_clock_under_92_percent_of_its_median_drops_the_round() -> None:
    assert dropped(make_rounds(12, 3, parent={"sm_clock_mhz": 1900 * 0.93})) == []
    assert dropped(make_rounds(12, 3, parent={"sm_clock_mhz": 1900 * 0.91})) == [3]


def test_a_throttle_bit_that_changed_for_one_arm_drops_the_round() -> None:
    assert dropped(make_rounds(12, 5, parent={"throttle_bits": 0x40})) == [5]
    assert dropped(make_rounds(12, 5, parent={"throttle_bits": 0x40}, both=True)) == []


def test_a_bit_that_comes_and_goes_is_a_habit() -> None:
    rounds = make_rounds(12, -1, parent={})
    flickering = [make_rounds(12, number, parent={"throttle_bits": 4})[number] for number in range(0, 12, 2)]
    rounds[::2] = flickering
    assert dropped(rounds) == []


def test_without_sensors_nothing_is_dropped_and_old_marks_go() -> None:
    rounds = [Round(process_set=0, samples=(Sample(arm="parent", steps=1, wall_s=1.0),), dropped="before")]
    assert dropped(rounds) == []
