"""The script on the box, with something else in the place of the graph: when it stops, what it packs, what it refuses."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phasewise.carry import box
from phasewise.carry.pack import write_starter
from phasewise.carry.parcel import read_manifest, write_archive, write_manifest
from phasewise.model import sources

HERE = ".".join(map(str, sys.version_info[:2]))
# in the place of `phasewise run`: leaves a record, then waits until it is told to stop
WAITS = """
import pathlib, signal, sys, time
record = pathlib.Path("profiles/records/sums/tiny-cpu/plan.json")
record.parent.mkdir(parents=True, exist_ok=True)
def stop(number, frame):
    record.with_name("stopped.json").write_text("{}")
    sys.exit(1)
signal.signal(signal.SIGINT, stop)
record.write_text(" ".join(sys.argv[1:]))
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.delenv("PYTHONPATH", raising=False)


def carry(folder: Path, program: str, python: str = HERE) -> Path:
    """A packed folder whose `phasewise` is this program."""
    folder.mkdir()
    source = folder.with_name("program.py")
    source.write_text(program)
    write_archive(
        [("src/phasewise/__main__.py", source), ("src/phasewise/__init__.py", Path(os.devnull))], folder / "sources.tgz"
    )
    facts = {"commit": "0123", "python": python, "wheels": "none", "archives": ["sources.tgz"]}
    write_manifest(folder, [folder / "sources.tgz"], facts)
    return folder


def test_the_time_is_kept_and_what_there_is_comes_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = carry(tmp_path / "there", WAITS)
    start = time.monotonic()
    assert box.main(folder, ["2", "one", "two"]) == box.AGAIN
    assert time.monotonic() - start < 15
    assert "time was up, call again to go on" in capfd.readouterr().out
    told = read_manifest(tmp_path / "out")
    assert (told["ended"], told["targets"], told["commit"]) == (box.AGAIN, ["one", "two"], "0123")
    (tree,) = (tmp_path / "scratch" / "phasewise-box").glob("tree-*")
    records = tree / "profiles/records/sums/tiny-cpu"
    assert (records / "stopped.json").is_file()
    assert (records / "plan.json").read_text().endswith("--quiet rules -- one two")


def test_a_shell_enters_what_was_set_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = carry(
        tmp_path / "there", "import os, sys; print(os.getcwd(), os.environ['PHASEWISE_COMMIT'], *sys.argv[1:])"
    )
    assert box.main(folder, ["9", "one"]) == 0
    entrance = re.search("`[.] (.*)` enters it", capfd.readouterr().out)
    assert entrance is not None
    words = f". {entrance[1]}; phasewise run 'two words'"
    found = subprocess.run(["sh", "-c", words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    (tree,) = (tmp_path / "scratch" / "phasewise-box").glob("tree-*")
    assert found == f"{tree} 0123 run two words\n"


def test_packages_that_were_carried_over_are_no_sources_of_a_workload(tmp_path: Path) -> None:
    folder = carry(tmp_path / "there", "")
    _, environment = box.set_up(folder, read_manifest(folder))
    site = Path(environment["PYTHONPATH"].split(os.pathsep)[2])
    assert site.is_dir() and sources._is_installed(str(site / "msgspec" / "json.py"))


def test_what_the_run_ended_with_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert box.main(carry(tmp_path / "there", "raise SystemExit(3)"), ["9", "one"]) == 3
    assert "phasewise run ended with 3" in capfd.readouterr().out
    assert read_manifest(tmp_path / "out")["ended"] == 3


def refuse(folder: Path, capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert box.main(folder, words or ("9", "one")) == 2
    (line,) = capfd.readouterr().err.splitlines()
    return line


def test_what_it_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = carry(tmp_path / "there", "")
    assert "usage: OUT=FOLDER sh run.sh SECONDS TARGET..." in refuse(folder, capfd, "9")
    assert "usage" in refuse(folder, capfd, "soon", "one")
    assert "packed was for 3.1; pack with --python" in refuse(carry(tmp_path / "old", "", python="3.1"), capfd)
    (folder / "sources.tgz").write_bytes(b"x")
    assert "sources.tgz: damaged" in refuse(folder, capfd)
    monkeypatch.setenv("PHASEWISE_PIECES", "few")
    assert "PHASEWISE_PIECES=few: no number" in refuse(folder, capfd)
    monkeypatch.delenv("OUT")
    assert "usage" in refuse(folder, capfd)
    assert not (tmp_path / "out").exists()


def test_pieces_are_small_and_what_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("phasewise.carry.parcel.PIECE_BYTES", 3000)
    monkeypatch.setattr(box, "PIECE_BYTES", 3000)
    tree, noise = tmp_path / "tree", random.Random(0)
    for name, size in {
        "profiles/records/a/b/plan.json": 4000,
        "exports/model": 100,
        "profiles/captures/x": 1000,
        "profiles/captures/y": 9000,
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(noise.randbytes(size))
    out = tmp_path / "out"
    (tmp_path / "out").mkdir()
    (out / "captures.tgz.07").write_text("of an earlier call")
    (out / "log").write_text("somebody else's")
    box.pack_up(tree, out, {})
    names = {
        "records.tgz.00",
        "records.tgz.01",
        "exports.tgz.00",
        *(f"captures.tgz.{number:02}" for number in range(4)),
    }
    assert {path.name for path in out.iterdir()} == names | {"manifest.json", "log"}
    assert {one["path"] for one in read_manifest(out)["files"]} == names
    assert all(path.stat().st_size <= 3000 for path in out.glob("*.tgz.*"))
    monkeypatch.setenv("PHASEWISE_PIECES", "4")
    box.pack_up(tree, out, {})
    assert read_manifest(out)["left_out"] == ["profiles/captures/y"]
    assert {path.name for path in out.glob("*.tgz.*")} == {
        "records.tgz.00",
        "records.tgz.01",
        "exports.tgz.00",
        "captures.tgz.00",
    }
    assert "left out: profiles/captures/y, for which PHASEWISE_PIECES=4 is too few" in capfd.readouterr().out


def test_it_starts_where_nothing_is_installed(tmp_path: Path) -> None:
    write_starter(tmp_path / "start.pyz")
    words = [sys.executable, "-I", "-S", str(tmp_path / "start.pyz"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"run.sh: {box.USAGE}\n")
