"""The list of captures and exports: made of what is here, never of what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.carry.kept import check_list, read_list, renew_list
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError

TRACE, MODEL = "profiles/captures/sums/full-h100/a/trace.json", "exports/sums/full-h100/b/model.onnx"
OF_RUN = ("sums", "full-h100")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in (TRACE, MODEL):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    renew_list(Layout(tmp_path), *OF_RUN, absent="refuse")
    return Layout(tmp_path)


def test_all_that_is_here_is_listed_and_checked(layout: Layout) -> None:
    listed = read_list(layout, *OF_RUN)
    assert {path: one.bytes for path, one in listed.items()} == {TRACE: len(TRACE), MODEL: len(MODEL)}
    assert check_list(layout, *OF_RUN) == 2
    (layout.root / TRACE).write_text(TRACE.upper())
    with pytest.raises(UserError, match=f"^{TRACE}: not the file that .*files.json lists; bring it again"):
        check_list(layout, *OF_RUN)
    (layout.root / TRACE).unlink()
    with pytest.raises(
        UserError, match=f"^{TRACE}: listed in profiles/records/sums/full-h100/files.json, and not here"
    ):
        check_list(layout, *OF_RUN)


def test_what_lies_elsewhere_stays_listed_until_it_is_forgotten(layout: Layout) -> None:
    before = read_list(layout, *OF_RUN)
    (layout.root / MODEL).unlink()
    with pytest.raises(UserError, match=f"^{MODEL}: listed in .*; bring it with `dvc pull`.*--forget` if it is lost$"):
        renew_list(layout, *OF_RUN, absent="refuse")
    assert read_list(layout, *OF_RUN) == before
    renew_list(layout, *OF_RUN, absent="keep")
    assert read_list(layout, *OF_RUN) == before
    renew_list(layout, *OF_RUN, absent="forget")
    assert [*read_list(layout, *OF_RUN)] == [TRACE]


def test_a_capture_that_was_made_anew_takes_the_place_of_the_old_one(layout: Layout) -> None:
    path = layout.root / TRACE
    path.rename(path.with_name("later.json"))
    renew_list(layout, *OF_RUN, absent="refuse")
    assert [*read_list(layout, *OF_RUN)] == [MODEL, TRACE.replace("trace", "later")]


def test_a_run_without_any_has_no_list(tmp_path: Path) -> None:
    assert renew_list(Layout(tmp_path), *OF_RUN, absent="refuse").files == ()
    assert not list(tmp_path.iterdir())
