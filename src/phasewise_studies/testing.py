"""What the tests of several studies share."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from filelock import FileLock

from phasewise.kit.interpreter import interpret
from phasewise.records.exit_code import ExitCode

# how `phasewise try` ends where the gate passed: a small case says little about speed
RIGHT = frozenset({ExitCode.FASTER, ExitCode.SAME, ExitCode.SLOWER, ExitCode.UNDECIDED})


def interpret_once(factory: pytest.TempPathFactory, module: str, *arguments: str) -> Any:
    """What `module` prints in Triton's interpreter for these arguments, run once for all test processes."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    file = base / f"{'-'.join((module, *arguments))}.json"
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            file.write_text(json.dumps(interpret(module, *arguments)))
    return json.loads(file.read_text())
