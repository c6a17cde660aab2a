"""Which variants of a run stand on today's files."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from phasewise.model import sources
from phasewise.model.freshness import judge_run


@pytest.fixture
def run(tmp_path):
    """A run with records of a baseline and two phases on one another, each with a file of its own."""
    for name in ("base", "one", "two"):
        (tmp_path / f"{name}.py").write_text(f"NAME = {name!r}\n")
    rows = [
        SimpleNamespace(variant="00-baseline", ancestors=()),
        SimpleNamespace(variant="01-one", ancestors=("00-baseline",)),
        SimpleNamespace(variant="02-two", ancestors=("01-one", "00-baseline")),
        SimpleNamespace(variant="03-not-there", ancestors=("00-baseline",)),
    ]
    for row, name in zip(rows, ("base", "one", "two"), strict=False):
        folder = tmp_path / "profiles/records/work/tiny-cpu" / row.variant
        folder.mkdir(parents=True)
        loaded = {f"{name}.py": sources.hash_file(tmp_path / f"{name}.py")}
        (folder / "validate.json").write_text(json.dumps({"plan": "x", "commit": "abc", "loaded": loaded, "cases": []}))
    return SimpleNamespace(workload="work", run="tiny-cpu", source="base.py", variants=rows, phases=())


def test_all_are_fresh_while_nothing_changes(run, tmp_path):
    standing = judge_run(run, tmp_path)
    assert standing.fresh == {"00-baseline", "01-one", "02-two"} == standing.changed.keys()
    assert standing.commits == ("abc",) and standing.files == ()


def test_a_changed_file_makes_stale_what_loaded_it_and_what_is_built_on_that(run, tmp_path):
    (tmp_path / "one.py").write_text("NAME = 1\n")
    standing = judge_run(run, tmp_path)
    assert standing.fresh == {"00-baseline"}
    assert standing.changed["02-two"] == standing.changed["01-one"] == ("one.py",)


def test_a_comment_changes_nothing(run, tmp_path):
    (tmp_path / "one.py").write_text("# more\nNAME = 'one'\n")
    assert len(judge_run(run, tmp_path).fresh) == 3


def test_a_record_that_lists_no_files_is_not_fresh(run, tmp_path):
    path = tmp_path / "profiles/records/work/tiny-cpu/01-one/measure.json"
    path.write_text(json.dumps({"plan": "x", "commit": "def"}))
    standing = judge_run(run, tmp_path)
    assert standing.fresh == {"00-baseline"} and standing.changed["02-two"] is None
    assert standing.commits == ("abc", "def")


WORKLOAD = """
from dataclasses import dataclass
from phasewise import Case, Idea, Phase, Shape, Workload

@dataclass(frozen=True)
class Switches:
    fast: bool = False
    block: int = 0

workload = Workload(
    summary="Declared", switches=Switches, cases={"a": Case(tiny=Shape(n=1))},
    phases=(Phase("one", {"fast": True}, because=Idea("x")), Phase("two", {"block": 8}, because=Idea("y"), keep=False)),
)
"""


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ('because=Idea("x")', 'because=Idea("another reason")', set()),
        ('because=Idea("x")', 'because=Idea("x"), keep=False', {"01-one", "02-two"}),
        ('{"block": 8}', '{"block": 16}', {"02-two"}),
        ('Phase("two"', 'Phase("other"', {"02-two"}),
    ],
)
def test_a_phase_that_is_declared_otherwise_makes_stale_what_is_built_on_it(run, tmp_path, old, new, stale):
    (tmp_path / "declared.py").write_text(WORKLOAD.replace(old, new))
    run.source = "declared.py"
    switches = {
        "00-baseline": {"fast": False, "block": 0},
        "01-one": {"fast": True, "block": 0},
        "02-two": {"fast": True, "block": 8},
    }
    run.switches_of = switches.__getitem__
    run.phases = (
        SimpleNamespace(phase="one", variant="01-one", kept=True),
        SimpleNamespace(phase="two", variant="02-two", kept=False),
    )
    sys.modules.pop("declared", None)
    standing = judge_run(run, tmp_path)
    assert standing.changed.keys() - standing.fresh == stale
