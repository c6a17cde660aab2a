"""What the tests of several studies share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from phasewise.kit.interpreter import interpret
from phasewise.records.exit_code import ExitCode

REPOSITORY = Path(__file__).parents[2]
# workload and name of each run whose records ship
RUNS = [
    (path.parent.parent.name, path.parent.name)
    for path in sorted(REPOSITORY.glob("profiles/records/*/full-*/summary.json"))
]
# how `phasewise try` ends where the gate passed: a small case says little about speed
RIGHT = frozenset({ExitCode.FASTER, ExitCode.SAME, ExitCode.SLOWER, ExitCode.UNDECIDED})

# what a case gave
Found = Mapping[str, float | bool]


def interpret_once(factory: pytest.TempPathFactory, module: str, *arguments: str) -> Any:
    """What `module` prints in Triton's interpreter for these arguments, run once for all test processes."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    file = base / f"{'-'.join((module, *arguments))}.json"
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            file.write_text(json.dumps(interpret(module, *arguments)))
    return json.loads(file.read_text())


def print_cases(cases: Mapping[str, Callable[[], Found]]) -> None:
    """Measure the cases that the command line names, all of them if it names none; print what each gave, as JSON."""
    print(json.dumps({name: cases[name]() for name in sys.argv[1:] or cases}))


def interpret_cases(request: pytest.FixtureRequest, factory: pytest.TempPathFactory, module: str) -> dict[str, Found]:
    """What each case gave that a selected test of this file, with this fixture, has as its `name`: in one process."""
    items = (item for item in request.session.items if item.path == request.path)
    mine = [
        item for item in items if request.fixturename in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    ]
    names = sorted({item.callspec.params["name"] for item in mine})
    return interpret_once(factory, module, *names)


def mark_slow(names: Iterable[str], slow: Iterable[str]) -> list:
    """Parameters of a test: what `make test` measures, and what only `make test-all` does."""
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]
