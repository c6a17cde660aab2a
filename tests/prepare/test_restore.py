"""What was prepared and is missing is made again, and is what it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from phasewise.model.layout import Layout
from phasewise.prepare.restore import restore_artifacts
from phasewise.prepare.workload import prepare_workload
from phasewise.records.errors import UserError
from phasewise.records.plan import PreparePlan

SOURCE = Path(__file__).parents[1] / "contract/prepared.py"


@pytest.fixture
def made(tmp_path, monkeypatch):
    # put back when the test ends
    monkeypatch.setenv("PHASEWISE_DATA", "")
    shutil.copy(SOURCE, tmp_path)
    plan = PreparePlan(
        workload="prepared", source=SOURCE.name, run="tiny-cpu", size="tiny", device="cpu", lock="", sources="",
        shapes={"lookup": {"n": 512}},
    )  # fmt: skip
    layout = Layout(tmp_path)
    return plan, prepare_workload(plan, layout), layout


def test_a_missing_artifact_is_made_again_and_one_that_is_there_is_left(made):
    plan, prepared, layout = made
    table = layout.root / "data/prepared/table.npy"
    content, age = table.read_bytes(), table.stat().st_mtime_ns
    restore_artifacts(plan, prepared, layout)
    assert table.stat().st_mtime_ns == age
    for spoil in (lambda: shutil.rmtree(table.parent), lambda: table.write_bytes(content[:100])):
        spoil()
        restore_artifacts(plan, prepared, layout)
        assert table.read_bytes() == content


def test_looking_for_what_is_there_imports_no_torch():
    code = """
import sys
from pathlib import Path
import phasewise.cli.stages
from phasewise.model.layout import Layout
from phasewise.prepare.restore import restore_artifacts
from phasewise.records.prepare import Prepared
restore_artifacts(None, Prepared(workload="toy", run="tiny-cpu", folder="data/toy"), Layout(Path.cwd()))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_artifact_that_comes_out_differently_is_refused(made):
    plan, prepared, layout = made
    other = tuple(msgspec.structs.replace(artifact, sha256="0" * 64) for artifact in prepared.artifacts)
    shutil.rmtree(layout.root / "data")
    with pytest.raises(UserError, match=r"data/prepared/table.npy: .* delete that record"):
        restore_artifacts(plan, msgspec.structs.replace(prepared, artifacts=other), layout)
