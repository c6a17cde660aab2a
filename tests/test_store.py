"""Records are written whole or not at all, and read only if they are what they should be."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from phasewise import store
from phasewise.records.errors import RecordError
from phasewise.records.prepare import CaseWork, Prepared

RECORD = Prepared(
    workload="w",
    run="tiny-cpu",
    folder="data/w",
    work=(CaseWork(case="a", items=1, flops=2, bytes=3, working_set_bytes=4),),
)


def test_a_record_comes_back_as_it_was(tmp_path):
    path = tmp_path / "deep" / "prepare.json"
    store.write(RECORD, path)
    assert store.read(path, Prepared) == RECORD
    assert store.digest(RECORD) == store.digest(store.read(path, Prepared))


def test_equal_content_keeps_the_file(tmp_path):
    path = tmp_path / "r.json"
    assert store.write_if_changed(RECORD, path)
    assert not store.write_if_changed(RECORD, path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a whole JSON record"),
        (b'{"schema": 1, "workload": "w"', "not a whole JSON record"),
        (b"\xff\xfe", "not a whole JSON record"),
        (b"[]", "schema None is unknown"),
        (b"{}", "schema None is unknown"),
        (json.dumps({"schema": 2}).encode(), "schema 2 is unknown, this version reads 1"),
        (json.dumps({"schema": "1"}).encode(), "schema '1' is unknown"),
        (json.dumps({"schema": 1}).encode(), "missing required field"),
        (json.dumps({"schema": 1, "workload": 3, "run": "r", "folder": "f"}).encode(), "Expected `str`"),
        (json.dumps({"schema": 1, "workload": "w", "run": "r", "folder": "f", "more": 1}).encode(), "unknown field"),
    ],
)
def test_a_corrupt_or_newer_record_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "prepare.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        store.read(path, Prepared)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_absent_record_says_which_stage_is_missing(tmp_path):
    with pytest.raises(RecordError, match="run the stage that writes it"):
        store.read(tmp_path / "none.json", Prepared)
    assert store.read_if_there(tmp_path / "none.json", Prepared) is None


def test_a_full_disk_leaves_the_old_record_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    store.write(RECORD, path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(RecordError, match="No space left on device"):
        store.write_bytes(b"new", path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path):
    # a file where a folder should be: refused for every user, root too
    (tmp_path / "records").write_text("in the way")
    with pytest.raises(RecordError, match="cannot be written"):
        store.write(RECORD, tmp_path / "records" / "r.json")


def test_a_write_that_is_interrupted_leaves_the_old_record(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    store.write(RECORD, path)

    def die(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        store.write_bytes(b"new", path)
    assert store.read(path, Prepared) == RECORD


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_record_is_for_whom_the_umask_says(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        store.write_bytes(b"{}", tmp_path / "new.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]


def test_a_record_of_too_many_levels_is_one_sentence(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(RecordError, match=r"deep\.json: not a whole JSON record"):
        store.read(tmp_path / "deep.json", Prepared)
