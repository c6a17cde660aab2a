"""The layers of the core, and that it imports no study."""

from __future__ import annotations

import subprocess
import sys


def test_the_layers_hold(repository):
    done = subprocess.run(
        [sys.executable, "-m", "importlinter.cli"], cwd=repository, capture_output=True, text=True, check=False
    )
    if "No module named" in done.stderr or not done.stdout:
        done = subprocess.run(["lint-imports"], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
