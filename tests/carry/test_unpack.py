"""What comes back from a box is taken in whole, or not at all and with one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from carry.parcels import H100, IDENTITY, RUN, make_repository, records_of, resign, send
from phasewise.carry.kept import read_list
from phasewise.carry.unpack import Taken, unpack
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError
from phasewise.store import encode

MEASURE = f"{RUN}/00-baseline/measure.json"


@pytest.fixture
def home(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "home")


@pytest.fixture
def commit(home: Layout) -> str:
    return make_repository(home.root)


def contents(home: Layout) -> dict[str, bytes]:
    """All files of the project but for git's own."""
    paths = (path for path in home.root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(home.root).as_posix(): path.read_bytes() for path in paths}


def refuse(home: Layout, folder: Path) -> str:
    """The sentence, with nothing taken in."""
    before = contents(home)
    with pytest.raises(UserError) as refused:
        unpack(home, folder, replace=False)
    assert contents(home) == before
    said = str(refused.value)
    assert "\n" not in said
    return said


def test_what_came_lies_where_it_belongs(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    came = send(tmp_path / "out", files, commit=commit, left_out=["profiles/captures/sums/full-h100/a/trace.json"])
    taken = unpack(home, came, replace=False)
    assert taken == Taken(
        runs=(("sums", "full-h100"),), files=3, left_out=("profiles/captures/sums/full-h100/a/trace.json",)
    )
    assert contents(home) == {"code.py": b"x = 1\n", **files}
    # and once more
    assert unpack(home, came, replace=False) == taken


def test_what_was_planned_and_not_made_stays_out(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    planned = {"profiles/records/more/full-h100/plan.json": b"{}", "profiles/records/more/full-h100/a/plan.json": b"{}"}
    # and a machine that was known there
    planned["profiles/machines/h200.json"] = b"{}"
    assert unpack(home, send(tmp_path / "out", {**files, **planned}, commit=commit), replace=False).runs == (
        ("sums", "full-h100"),
    )
    assert contents(home).keys() == {"code.py", *files}


def test_a_damaged_piece(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    piece = came / "records.tgz.00"
    content = bytearray(piece.read_bytes())
    content[len(content) // 2] ^= 0xFF
    piece.write_bytes(content)
    assert f"{piece}: damaged" in refuse(home, came)
    # with the right hash it still is no archive
    resign(came)
    assert "damaged, it is no whole archive" in refuse(home, came)


def test_a_piece_that_ends_early(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    piece = came / "records.tgz.00"
    piece.write_bytes(piece.read_bytes()[:-9])
    assert "damaged" in refuse(home, came)
    resign(came)
    assert "damaged, it is no whole archive" in refuse(home, came)


def test_a_missing_piece(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    (came / "records.tgz.00").unlink()
    assert "records.tgz.00: missing" in refuse(home, came)


def test_no_manifest_and_one_that_is_none(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    (came / "manifest.json").write_text("[1, 2")
    assert "manifest.json: damaged" in refuse(home, came)
    (came / "manifest.json").write_text("[1, 2]")
    assert "manifest.json: damaged" in refuse(home, came)
    (came / "manifest.json").unlink()
    assert "manifest.json: can't be read (No such file or directory)" in refuse(home, came)


def test_a_manifest_of_another_version(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    resign(came, format=2)
    assert "format 2 is unknown" in refuse(home, came)


def test_a_piece_that_is_a_link(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    (came / "records.tgz.00").rename(tmp_path / "elsewhere")
    (came / "records.tgz.00").symlink_to(tmp_path / "elsewhere")
    assert "records.tgz.00: a link" in refuse(home, came)


@pytest.mark.parametrize("name", ["../out.tgz.00", "/etc/passwd", "a/../../b", ""])
def test_a_manifest_that_climbs_out(home: Layout, commit: str, tmp_path: Path, name: str) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit)
    resign(came, files=[{"path": name, "size": 1, "sha256": "0"}])
    assert f"names {name!r}, which climbs out of the folder" in refuse(home, came)


@pytest.mark.parametrize("name", ["profiles/records/../../../outside", "/tmp/outside", "profiles\\records\\x"])
def test_a_member_that_climbs_out(home: Layout, commit: str, tmp_path: Path, name: str) -> None:
    came = send(tmp_path / "out", {**records_of(), name: b"x"}, commit=commit)
    assert "climbs out of the folder" in refuse(home, came)
    assert not (tmp_path / "outside").exists() and not Path("/tmp/outside").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../code.py", "plan.json"])
def test_a_member_that_is_a_link(home: Layout, commit: str, tmp_path: Path, target: str) -> None:
    came = send(tmp_path / "out", records_of(), commit=commit, links={f"{RUN}/validate.json": target})
    assert "is a link or a device" in refuse(home, came)


@pytest.mark.parametrize(
    "name", ["src/code.py", ".git/hooks/post-checkout", "profiles/captures/x", ".snakemake/scripts/x"]
)
def test_a_member_that_has_no_business_there(home: Layout, commit: str, tmp_path: Path, name: str) -> None:
    came = send(tmp_path / "out", {**records_of(), name: b"x"}, commit=commit)
    assert f"{name!r} has no business there" in refuse(home, came)


@pytest.mark.parametrize(
    "name", ["profiles/records/Sums/full-h100/plan.json", "profiles/records/sums/huge-h100/plan.json"]
)
def test_a_folder_that_is_no_run(home: Layout, commit: str, tmp_path: Path, name: str) -> None:
    came = send(tmp_path / "out", {**records_of(), name: b"{}"}, commit=commit)
    assert f"{name.removesuffix('/plan.json')}: came, and is no run" in refuse(home, came)


def test_no_run_at_all(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", {"logs/run.log": b"died"}, commit=commit)
    assert "holds no record of a run" in refuse(home, came)


def test_a_commit_that_is_not_here(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(), commit="0123456789ab")
    assert "commit 0123456789ab, which this repository does not have" in refuse(home, came)


def test_another_model_than_the_run_s_name(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    other = msgspec.structs.replace(H100, name="NVIDIA H200")
    came = send(tmp_path / "out", {**files, IDENTITY: encode(other)}, commit=commit)
    assert "a run of h100, and the machine that came is NVIDIA H200" in refuse(home, came)


def test_a_record_of_another_model_among_those_of_the_run(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", records_of(made_on="NVIDIA H200; 580.1"), commit=commit)
    assert f"{MEASURE}: made on NVIDIA H200, and the run is of NVIDIA H100 80GB HBM3" in refuse(home, came)


def test_a_record_that_is_none(home: Layout, commit: str, tmp_path: Path) -> None:
    came = send(tmp_path / "out", {**records_of(), MEASURE: b'{"machine": 3}'}, commit=commit)
    assert f"{MEASURE}: came, and is no record" in refuse(home, came)


def test_a_run_without_its_machine(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    del files[IDENTITY]
    assert f"came without {IDENTITY}" in refuse(home, send(tmp_path / "out", files, commit=commit))


@pytest.mark.parametrize("device", ["h100x2", "h100x16"])
def test_several_gpus_of_the_model_are_a_run_of_it(home: Layout, commit: str, tmp_path: Path, device: str) -> None:
    came = send(tmp_path / "out", records_of(msgspec.structs.replace(H100, device=device, gpus=2)), commit=commit)
    assert unpack(home, came, replace=False).runs == (("sums", f"full-{device}"),)


def test_a_record_that_differs_needs_a_word(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    unpack(home, send(tmp_path / "out", {**files, f"{RUN}/01-old/measure.json": b"{}"}, commit=commit), replace=False)
    # what is judged from the others may differ, and is taken
    judged = {**files, f"{RUN}/summary.json": b"{}"}
    unpack(home, send(tmp_path / "judged", judged, commit=commit), replace=False)
    unpack(home, send(tmp_path / "again", {**files, f"{RUN}/summary.json": b'{"a": 1}'}, commit=commit), replace=False)
    later = {**files, MEASURE: json.dumps({"machine": H100.identity, "commit": commit}).encode()}
    came = send(tmp_path / "later", later, commit=commit)
    assert f"{MEASURE}: on record already, and another came; give --replace" in refuse(home, came)
    unpack(home, came, replace=True)
    assert {name for name in contents(home) if name.startswith(RUN)} == {f"{RUN}/plan.json", MEASURE}
    assert (home.root / MEASURE).read_bytes() == later[MEASURE]


def test_a_run_that_takes_another_s_place_keeps_the_captures_that_are_its_own(
    home: Layout, commit: str, tmp_path: Path
) -> None:
    files = records_of() | {f"{RUN}/{name}/profile.json": b"{}" for name in ("00-baseline", "01-old", "02-changed")}
    unpack(home, send(tmp_path / "out", files, commit=commit), replace=False)
    traces = [home.captures("sums", "full-h100", name) / "trace" for name in ("00-baseline", "01-old", "02-changed")]
    for trace in traces:
        trace.parent.mkdir(parents=True)
        trace.touch()
    del files[f"{RUN}/01-old/profile.json"]
    later = files | {f"{RUN}/02-changed/profile.json": b'{"machine": ""}'}
    unpack(home, send(tmp_path / "later", later, commit=commit), replace=True)
    assert [trace.exists() for trace in traces] == [True, False, False]
    assert [*read_list(home, "sums", "full-h100")] == [home.relative(traces[0])]


def test_a_machine_that_other_runs_were_not_made_on(home: Layout, commit: str, tmp_path: Path) -> None:
    files = records_of()
    unpack(home, send(tmp_path / "out", files, commit=commit), replace=False)
    other = {name.replace("/sums/", "/more/"): content for name, content in files.items()}
    newer = encode(msgspec.structs.replace(H100, driver="590.2"))
    came = send(tmp_path / "more", {**other, IDENTITY: newer}, commit=commit)
    assert "on which sums/full-h100 was measured, and what came is of NVIDIA H100 80GB HBM3; 590.2" in refuse(
        home, came
    )
    # the run itself may come from there
    unpack(home, send(tmp_path / "new", {**files, IDENTITY: newer}, commit=commit), replace=False)
    assert (home.root / IDENTITY).read_bytes() == newer


def test_nothing_is_left_of_a_try(home: Layout, commit: str, tmp_path: Path) -> None:
    refuse(home, send(tmp_path / "out", {**records_of(), "src/x": b""}, commit=commit))
    assert not list((home.root / ".phasewise").iterdir())
