"""Cases that a process where Triton interprets measures, by name: those that the selected tests ask for, and no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping

import pytest

from phasewise_studies.testing import interpret_once

Found = Mapping[str, float | bool]
# relative to the largest value; sums of some tens of float32 products
TOLERANCE = 2e-6


def print_cases(cases: Mapping[str, Callable[[], Found]]) -> None:
    """Measure the cases that the command line names, all of them if it names none; print what each gave, as JSON."""
    print(json.dumps({name: cases[name]() for name in sys.argv[1:] or cases}))


def interpret_cases(request: pytest.FixtureRequest, factory: pytest.TempPathFactory, module: str) -> dict[str, Found]:
    """What each case gave that a selected test of this file has as its `name`, in one process."""
    mine = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = sorted({item.callspec.params["name"] for item in mine})
    return interpret_once(factory, f"phasewise_studies.painn.tests.{module}", *names)


def mark_slow(names: Iterable[str], slow: Iterable[str]) -> list:
    """Parameters of a test: what `make test` measures, and what only `make test-all` does."""
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


def find_wrong(found: Found, tolerance: float = TOLERANCE) -> Found:
    """What is not promised, and errors that are not those of float32."""
    return {
        key: value for key, value in found.items() if (not value if isinstance(value, bool) else not value < tolerance)
    }
