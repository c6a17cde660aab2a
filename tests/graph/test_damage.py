"""Whatever stands in the place of a record, each command that reads it says one sentence with its name, or needs it not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from graph.projects import RUN, copy_project, lend, make_project, share
from phasewise.cli import main

STACKED = "stacked"
NAMES = {"workload": "stacked", "run": RUN}
OF_RUN = ("plan", "prepare.plan", "prepare", "analyse", "ledger")
OF_VARIANT = ("plan", "validate", "predict", "measure", "profile", "analyse")
RECORDS = [*(f"{name}.json" for name in OF_RUN), *(f"01-vectorised/{name}.json" for name in OF_VARIANT)]
COMMANDS = {
    "analyse": ("analyse", *NAMES.values()),
    "analyse a variant": ("analyse", *NAMES.values(), "01-vectorised"),
    "status": ("status",),
    "status of a run": ("status", *NAMES.values()),
    "diff": ("diff", f"stacked/{RUN}", f"stacked/{RUN}"),
    "retry": ("retry", *NAMES.values()),
}


def change(**fields):
    return lambda path, content: path.write_text(json.dumps({**json.loads(content), **fields}))


# what is made of the file at `path`, that held `content` and is gone
DAMAGES = {
    "empty": lambda path, content: path.write_bytes(b""),
    "half": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "binary": lambda path, content: path.write_bytes(bytes(range(256))),
    "other": lambda path, content: path.write_text('{"a": 1}'),
    "list": lambda path, content: path.write_text("[1, 2]"),
    "nan": lambda path, content: path.write_text('{"schema": NaN}'),
    "deep": lambda path, content: path.write_text("[" * 100_000),
    "newer": change(schema=99),
    "wrong type": change(workload={}, variant=[], name=[], cases=5),
    "folder": lambda path, content: path.mkdir(),
    "pipe": lambda path, content: os.mkfifo(path),
    "endless": lambda path, content: path.symlink_to("/dev/zero"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, lender):
    def make(folder):
        project = make_project(folder, {STACKED: Path(__file__).with_name("stacked")}, profilers=["torch"])
        # one phase has every record
        project.configure(workloads={STACKED: {"source": f"./{STACKED}", "phases": ["vectorised"]}})
        lend(lender, project)
        project.run()
        return project

    return share(tmp_path_factory, "whole", make)


@pytest.fixture
def project(finished, tmp_path, monkeypatch):
    """A copy, to be damaged, and the folder that commands are called in."""
    found = copy_project(finished, tmp_path / "project")
    monkeypatch.chdir(found.folder)
    return found


def call(words, capsys):
    """Exit code, and what was said of it."""
    try:
        main(words)
    except SystemExit as ended:
        return ended.code, capsys.readouterr().err
    return 0, capsys.readouterr().err


@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_one_sentence_with_its_name(damage, project, finished, capsys):
    told = 0
    for record in RECORDS:
        path = project.records(STACKED) / record
        for command, words in COMMANDS.items():
            shutil.rmtree(project.records(STACKED))
            shutil.copytree(finished.records(STACKED), project.records(STACKED))
            content = path.read_bytes()
            path.unlink()
            DAMAGES[damage](path, content)
            code, said = call(words, capsys)
            # 11: what got worse between two runs
            assert code in (0, 2, 11), f"{command} with {record}: {said}"
            assert "Traceback" not in said
            if code == 2:
                told += 1
                *left_out, last = said.splitlines()
                assert last.startswith(f"phasewise: {path}: "), f"{command} with {record}: {said}"
                # what was made from a plan that is damaged
                assert all("so it is left out" in line for line in left_out)
    # a plan, and what is judged, is read by most of them
    assert told >= 15


@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", ["half", "list", "wrong type", "folder", "pipe"])
@pytest.mark.parametrize("place", ["profiles/records", "reports"])
def test_a_damaged_summary_is_one_sentence_with_its_name(place, damage, project, capsys):
    path = project.folder / place / STACKED / RUN / "summary.json"
    content = path.read_bytes()
    path.unlink()
    DAMAGES[damage](path, content)
    code, said = call(("report", *NAMES.values()) if place == "profiles/records" else ("report",), capsys)
    assert (code, said.count("\n")) == (2, 1) and f"{path}: " in said


# what stands on a baseline's gate is all of a run: that it is made again behind a new one is seen elsewhere
@pytest.mark.parametrize(
    ("record", "is_rest_wanted"),
    [("00-baseline/validate.json", False), ("01-vectorised/measure.json", True), ("analyse.json", True)],
)
def test_a_run_that_meets_a_damaged_record_says_so_and_makes_it_again_once_it_is_deleted(
    record, is_rest_wanted, project
):
    path = project.records(STACKED) / record
    path.write_bytes(path.read_bytes()[:100])
    done = project.run(check=False)
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    # what only the page reads is told there
    assert "not a whole JSON record" in (told if done.returncode else project.pages(STACKED))
    path.unlink()
    project.run(*([] if is_rest_wanted else [str(path.relative_to(project.folder))]))
    assert json.loads(path.read_text())["schema"] == 1
