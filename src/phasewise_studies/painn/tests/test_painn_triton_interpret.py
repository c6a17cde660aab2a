"""The kernels of messages, forces and atoms in Triton's interpreter, against float64, at small odd sizes."""

from __future__ import annotations

import pytest

from phasewise_studies.painn.tests import painn_interpret
from phasewise_studies.painn.tests.painn_interpreted import TOLERANCE, find_wrong
from phasewise_studies.testing import Found, interpret_cases, mark_slow

# the highest Bessel function turns through 63 rad up to the cutoff: rounding d to 2^-24 is 4e-6 of its slope
BESSEL = 1e-5
# of the messages, one launch of each kind
QUICK = ("nothing", "resident", "streamed", "tiles", "table", "forces", "atoms")
SLOW = ("resident-two", "streamed-four", "wide-tiles", "tiles-poison", "tiles-layers", "bessel", "four-functions")


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What each case gave."""
    return interpret_cases(request, tmp_path_factory, painn_interpret.__name__)


@pytest.mark.parametrize("name", mark_slow(QUICK, SLOW))
def test_what_is_promised_holds_and_errors_are_those_of_float32(interpreted: dict[str, Found], name: str) -> None:
    assert interpreted[name] and not find_wrong(interpreted[name], BESSEL if name == "bessel" else TOLERANCE)


@pytest.mark.parametrize("name", ["forces"])
def test_forces_of_a_list_add_up_to_nothing(interpreted: dict[str, Found], name: str) -> None:
    assert interpreted[name]["balance"] < 1e-12


def test_every_case_is_tested() -> None:
    assert (*QUICK, *SLOW) == tuple(painn_interpret.CASES)
