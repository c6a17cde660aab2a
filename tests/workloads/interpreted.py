"""Kernels in Triton's interpreter: in a process of their own, since the switch must stand before triton is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graph.projects import hold

TESTS = Path(__file__).parents[1]
LIMIT_S = 500


def interpret(factory: pytest.TempPathFactory, module: str) -> Any:
    """The JSON in the last line that `python -m module` prints; made once for all test processes."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    file = base / f"{module}.json"
    with hold(file.with_suffix(".lock")):
        if not file.exists():
            path = os.pathsep.join((str(TESTS), *sys.path))
            environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
            command = [sys.executable, "-m", "workloads.replace_once", module]
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
            assert ran.returncode == 0, ran.stderr
            file.write_text(ran.stdout.splitlines()[-1])
    return json.loads(file.read_text())
