"""The neighbour lists of painn in Triton's interpreter, against brute force, at small odd sizes."""

from __future__ import annotations

import pytest

from phasewise_studies.painn.tests import painn_interpret_lists
from phasewise_studies.painn.tests.painn_interpreted import find_wrong
from phasewise_studies.testing import Found, interpret_cases, mark_slow

QUICK = ("molecules", "skewed", "full-cell", "short-box")
SLOW = ("long", "crowded", "lost-atoms")


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What each case gave."""
    return interpret_cases(request, tmp_path_factory, painn_interpret_lists.__name__)


@pytest.mark.parametrize("name", mark_slow(QUICK, SLOW))
def test_the_list_is_that_of_brute_force(interpreted: dict[str, Found], name: str) -> None:
    assert interpreted[name] and not find_wrong(interpreted[name])


def test_every_case_is_tested() -> None:
    assert (*QUICK, *SLOW) == tuple(painn_interpret_lists.CASES)
