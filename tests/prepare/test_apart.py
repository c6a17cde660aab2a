"""Preparing in a process of its own gives what preparing gives, and a mistake of the user is one sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from phasewise.model.freshness import find_closure
from phasewise.model.layout import Layout
from phasewise.prepare.apart import prepare_in_process, prepare_plain
from phasewise.records.errors import UserError
from phasewise.records.plan import PreparePlan

SOURCE = Path(__file__).parents[1] / "contract/prepared.py"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparePlan:
    monkeypatch.setenv("PHASEWISE_DATA", "")
    shutil.copy(SOURCE, tmp_path)
    return PreparePlan(
        workload="prepared", source=SOURCE.name, run="tiny-cpu", size="tiny", device="cpu", lock="", sources="",
        shapes={"lookup": {"n": 512}},
    )  # fmt: skip


def test_what_is_prepared_apart_is_on_record(plan, tmp_path):
    layout = Layout(tmp_path)
    apart = prepare_in_process(plan, find_closure(SOURCE.name, "prepared", tmp_path), layout)
    assert apart.artifacts and (tmp_path / apart.artifacts[0].path).is_file() and apart.work[0].case == "lookup"
    assert os.environ["PHASEWISE_DATA"] == ""
    here = prepare_plain({"plan": msgspec.to_builtins(plan), "root": str(tmp_path)})
    found = msgspec.to_builtins(apart)
    assert found.pop("loaded").keys() == {"prepared.py"} <= set(here["loaded"])
    same = {name: value for name, value in here["prepared"].items() if name not in ("seconds", "loaded")}
    assert same == {name: value for name, value in found.items() if name != "seconds"}


def test_a_preparation_that_fails_is_one_sentence(plan, tmp_path):
    source = tmp_path / SOURCE.name
    source.write_text(source.read_text().replace("def prepare(folder):", "def prepare(folder):\n    1 / 0"))
    with pytest.raises(UserError) as caught:
        prepare_in_process(plan, None, Layout(tmp_path))
    line = source.read_text().splitlines().index("    1 / 0") + 1
    assert str(caught.value) == (
        f"prepared: it could not be prepared (ZeroDivisionError: division by zero (prepared.py:{line})); correct prepared.py"
    )
