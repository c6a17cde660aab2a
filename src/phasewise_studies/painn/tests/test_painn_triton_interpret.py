"""The kernels of painn in Triton's interpreter, against float64 and brute force, at small odd sizes."""

from __future__ import annotations

import pytest

from phasewise_studies.testing import interpret_once

# relative to the largest value; sums of some tens of float32 products
TOLERANCE = 2e-6
# the highest Bessel function turns through 63 rad up to the cutoff: rounding d to 2^-24 is 4e-6 of its slope
BESSEL = 1e-5


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | bool]]:
    """What each case gave."""
    return interpret_once(tmp_path_factory, "phasewise_studies.painn.tests.painn_interpret")


CASES = [
    "molecules",
    "nothing",
    "skewed",
    "long",
    "crowded",
    "full-cell",
    "lost-atoms",
    "short-box",
    "messages",
    "tiles",
    "bessel",
    "four-functions",
    "table",
    "forces",
    "atoms",
]


@pytest.mark.parametrize("name", CASES)
def test_what_is_promised_holds_and_errors_are_those_of_float32(interpreted, name: str) -> None:
    found, tolerance = interpreted[name], BESSEL if name == "bessel" else TOLERANCE
    wrong = {
        key: value for key, value in found.items() if (not value if isinstance(value, bool) else not value < tolerance)
    }
    assert found and not wrong


def test_every_case_was_measured(interpreted) -> None:
    assert sorted(interpreted) == sorted(CASES)


def test_forces_of_a_list_add_up_to_nothing(interpreted) -> None:
    assert interpreted["forces"]["balance"] < 1e-12
