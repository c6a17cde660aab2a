"""A packed folder: by commit, refused where it would not be what is in the commit, and the way there and back."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from carry.parcels import git
from graph.projects import CONTRACT, RUN, Project, make_project, share, surroundings
from phasewise.carry.parcel import read_manifest
from phasewise.cli import main

HERE = ".".join(map(str, sys.version_info[:2]))
TARGET = f"profiles/records/rows/{RUN}/summary.json"


def make_home(folder: Path) -> Project:
    """A project in a repository of its own."""
    project = make_project(folder, {"rows": CONTRACT / "layout.py"}, exporters=["torch-export"])
    (folder / ".gitignore").write_text(
        "/.phasewise/\n/.snakemake/\n/logs/\n/exports/\n/profiles/\n/reports/\n__pycache__\n"
    )
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return project


def list_there(folder: Path) -> Path:
    """What the box has: all that this environment has."""
    path = folder / "there.txt"
    path.write_text("\n".join(f"{one.name}=={one.version}" for one in importlib.metadata.distributions()))
    return path


def pack(home: Path, folder: Path, *words: str) -> None:
    there = list_there(folder.parent)
    before = Path.cwd()
    os.chdir(home)
    try:
        main(["pack", str(folder), "--python", HERE, "--there", str(there), *words])
    finally:
        os.chdir(before)


def refuse(home: Path, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        pack(home, folder, *words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def list_members(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return {member.name for member in tar if not member.isdir()}


def test_a_folder_holds_what_is_in_the_commit(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home").folder
    for name in ("data/rows/weights.bin", ".phasewise/references/rows/a.pt"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    (home / "reports").mkdir()
    (home / "reports/index.md").write_text("old")
    git(home, "add", "--force", "data", "reports")
    git(home, "commit", "--quiet", "--message", "second")
    # what the graph makes is neither packed nor in the way
    (home / "reports/index.md").write_text("new")
    folder = tmp_path / "there"
    pack(home, folder)
    told = read_manifest(folder)
    assert told["commit"] == git(home, "rev-parse", "--short=12", "HEAD") and told["python"] == HERE
    assert told["archives"] == ["sources.tgz", "packages.tgz", "data.tgz"]
    assert list_members(folder / "sources.tgz") == {
        ".gitignore",
        "rows.py",
        "workflow/config.yaml",
        "data/rows/weights.bin",
    }
    assert list_members(folder / "data.tgz") == {"data/rows/weights.bin", ".phasewise/references/rows/a.pt"}
    packages = list_members(folder / "packages.tgz")
    # the packages, with what they take from the repository by links
    assert {
        f".phasewise/src/{name}" for name in ("phasewise/run.py", "phasewise/project/workflow/rules/measure.smk")
    } <= packages
    assert not list(folder.glob("wheels/*"))
    # what somebody else put there stays, and is not packed
    (folder / "out").mkdir()
    (folder / "out/records.tgz.00").touch()
    pack(home, folder, "--lean")
    assert (folder / "out/records.tgz.00").exists()
    assert {one["path"] for one in read_manifest(folder)["files"]} == {
        "run.sh",
        "start.pyz",
        "sources.tgz",
        "packages.tgz",
    }
    assert read_manifest(folder)["archives"] == ["sources.tgz", "packages.tgz"] and not (folder / "data.tgz").exists()


def test_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, folder = make_home(tmp_path / "home").folder, tmp_path / "there"
    (home / "rows.py").write_text("# changed\n")
    assert "rows.py: not as in the commit" in refuse(home, folder, capsys)
    (home / "new.py").touch()
    assert "new.py and 1 more" in refuse(home, folder, capsys) or "rows.py and 1 more" in refuse(home, folder, capsys)
    git(home, "add", "--all")
    git(home, "commit", "--quiet", "--message", "second")
    assert "neither came back from a box nor holds a run" in refuse(home, folder, capsys, "--from", str(home))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    assert "is there and nothing that was packed" in refuse(home, tmp_path / "other", capsys)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]
    shutil.rmtree(home / ".git")
    assert "has no commit" in refuse(home, folder, capsys)


def call_box(carried: Path, scratch: Path, seconds: int = 500) -> subprocess.CompletedProcess[str]:
    """`run.sh` of what was carried, with nothing of home to be imported."""
    own = {"OUT": str(scratch / "out"), "TMPDIR": str(scratch), "PYTHON": sys.executable}
    return subprocess.run(
        ["sh", str(carried / "run.sh"), str(seconds), TARGET], cwd=scratch, env=surroundings(scratch, own),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def make_journey(folder: Path) -> Project:
    """Packed at home, carried over, run on the box, taken in by a clone."""
    home, there = make_home(folder / "home"), folder / "box"
    there.mkdir()
    pack(home.folder, folder / "packed")
    shutil.copytree(folder / "packed", there / "carried")
    done = call_box(there / "carried", there)
    assert done.returncode == 0, done.stdout + done.stderr
    git(folder, "clone", "--quiet", str(home.folder), "clone")
    clone = Project(folder / "clone")
    (folder / "said.json").write_text(
        json.dumps([done.stdout, clone.call("phasewise", "unpack", str(there / "out")).stdout])
    )
    return clone


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    share(tmp_path_factory, "journey", make_journey)
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "journey"


def test_what_the_box_made_is_rendered_at_home(journey: Path) -> None:
    clone = Project(journey / "clone")
    box_said, home_said = json.loads((journey / "said.json").read_text())
    assert "run.sh: all made" in box_said
    (tree,) = (journey / "box/phasewise-box").glob("tree-*")
    # by the packages that travelled
    assert f"Snakefile: {tree}/.phasewise/src/phasewise/project/Snakefile" in (tree / "logs/run.log").read_text()
    assert f"page: reports/rows/{RUN}/index.html" in home_said
    assert "01-columns" in clone.page("rows", "phases.html")
    measured = clone.contents("measure.json")
    assert measured and all(
        json.loads(content)["commit"] == git(clone.folder, "rev-parse", "--short=12", "HEAD")
        for content in measured.values()
    )
    made = {path.relative_to(tree) for path in (tree / "profiles/captures").rglob("*") if path.is_file()}
    assert made and all((clone.folder / name).read_bytes() == (tree / name).read_bytes() for name in made)
    assert clone.jobs(TARGET) == set()


def test_a_second_call_runs_nothing_and_comes_back_the_same(journey: Path) -> None:
    clone, out = Project(journey / "clone"), journey / "box/out"
    before = clone.contents("*.json")
    done = call_box(journey / "box/carried", journey / "box")
    assert done.returncode == 0 and "Nothing to be done" in done.stdout, done.stdout + done.stderr
    clone.call("phasewise", "unpack", str(out))
    assert clone.contents("*.json") == before


def test_the_next_box_goes_on_from_what_came_back(journey: Path, tmp_path: Path) -> None:
    for number, origin in enumerate((journey / "box/out", journey / "clone/profiles/records/rows" / RUN)):
        scratch = tmp_path / str(number)
        (scratch / "box").mkdir(parents=True)
        pack(journey / "clone", scratch / "packed", "--from", str(origin))
        done = call_box(scratch / "packed", scratch / "box")
        assert done.returncode == 0 and "Nothing to be done" in done.stdout, done.stdout + done.stderr
        # as the stage of dvc.yaml begins: what stayed at home is missed by nobody
        (tree,) = (path for path in scratch.rglob("tree-*") if path.is_dir())
        listed = subprocess.run(
            [sys.executable, "-m", "phasewise", "files", "rows", RUN],
            cwd=tree,
            capture_output=True,
            text=True,
            check=False,
        )
        assert listed.returncode == 0, listed.stderr
