"""Numbers as text."""

from __future__ import annotations

import math

import pytest

from phasewise.records.base import Interval, Quantity
from phasewise.report import format as show


def plain(text: str) -> str:
    """Without the spaces that keep a number and its unit together."""
    return text.replace(show.SPACE, " ").replace(show.THIN, " ")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"), (2.34e-5, "23.4 µs"), (9.996e-7, "1.00 µs"), (9.99e-7, "999 ns"), (4e-12, "0.00400 ns"), (1.2, "1.20 s"),
        (119.6, "120 s"), (125.2, "2 min 05 s"), (12_000, "3 h 20 min"), (None, "–"), (math.nan, "–"), (math.inf, "–"), (-2e-3, "−2.00 ms"),
    ],
)  # fmt: skip
def test_times_take_the_unit_that_fits(seconds: float | None, told: str) -> None:
    assert plain(show.time(seconds)) == told


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        ((4.512, 4.43, 4.598), "4.51× [4.43, 4.60]"),
        ((1.0004, 0.9984, 1.0024), "1.000× [0.998, 1.002]"),
        ((1.00004, 0.99998, 1.0001), "1.0000× [1.0000, 1.0001]"),
        ((123.4, 120.2, 126.1), "123× [120, 126]"),
        ((12_345.0, 12_000.0, 12_700.0), "12 345× [12 000, 12 700]"),
        ((2.0, 1.0, math.inf), "2.00× [1.00, –]"),
    ],
)
def test_an_interval_shows_enough_digits_for_its_width(interval: tuple[float, float, float], told: str) -> None:
    estimate, low, high = interval
    assert plain(show.ratio_interval(Interval(estimate=estimate, low=low, high=high))) == told


def test_estimate_and_bounds_of_a_time_share_one_unit() -> None:
    assert plain(show.time_interval(Interval(estimate=1.01e-3, low=9.9e-4, high=1.03e-3))) == "1.01 ms [0.99, 1.03]"
    assert plain(show.time_bounds(Interval(estimate=1.01e-3, low=9.9e-4, high=1.03e-3))) == "[0.99, 1.03] ms"


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.38, "38 %"), (-0.38, "−38 %"), (0.0062, "0.62 %"), (1.0, "100 %"), (0, "0 %"), (None, "–"), (0.041, "4.1 %")],
)
def test_shares_are_percents(value: float | None, told: str) -> None:
    assert plain(show.percent(value)) == told


def test_a_signed_share_says_which_way() -> None:
    assert plain(show.percent(0.04, signed=True)) == "+4.0 %"
    assert plain(show.percent(-0.04, signed=True)) == "−4.0 %"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3.2e-7, "3.2×10⁻⁷"),
        (0.0032, "0.0032"),
        (0.0, "0"),
        (3.1, "3.1"),
        (-4e-9, "−4.0×10⁻⁹"),
        (None, "–"),
        (1e9, "1.0×10⁹"),
    ],
)
def test_errors_never_come_in_computer_notation(value: float | None, told: str) -> None:
    assert show.power_of_ten(value) == told


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (2e-3, "s", "2.00 ms"), (1.7e9, "B", "1.70 GB"), (512, "bytes", "512 B"), (2.0, "x", "2×"), (3.2e-3, "J/item", "3.20 mJ/item"),
        (3.13e6, "1/s", "3.13 M items/s"), (0.31, "meV/ns", "0.310 meV/ns"), (0.5, "share", "50 %"), (412, "", "412"), (None, "s", "–"),
        (4.1e12, "B/s", "4.10 TB/s"), (1234567, "", "1 234 567"),
    ],
)  # fmt: skip
def test_quantities_keep_their_unit(value: float | None, unit: str, told: str) -> None:
    assert plain(show.quantity(Quantity(value=value, unit=unit))) == told


def test_a_quantity_of_several_timings_shows_its_bounds() -> None:
    assert plain(show.quantity(Quantity(value=0.32, unit="s", low=0.31, high=0.35))) == "320 ms [310 ms, 350 ms]"


def test_a_share_among_targets_is_a_percent_and_other_metrics_are_not() -> None:
    assert plain(show.metric(0.46, "floor_fraction", "")) == "46 %"
    assert plain(show.metric(0.46, "drift", "")) == "0.460"


def test_ranges_are_written_as_people_write_them() -> None:
    assert show.ratio_range((1.5, 2.0)) == "1.5 to 2×"
    assert show.ratio_range((3.0, 3.0)) == "3×"
    assert show.ratio_range(None) == "–"
    assert (show.between(12, 24), show.between(12, 12)) == ("12 to 24", "12")
    assert (show.counted(1, "set"), show.counted(3, "set")) == ("1 set", "3 sets")


def test_text_loses_control_characters_and_direction_overrides() -> None:
    assert show.clean("a\nb\x00c\u202ed\ud800") == "a b\ufffdc\ufffdd\ufffd"
