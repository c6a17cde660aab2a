"""A program that writes candidates is told numbers of two digits, and nothing that a candidate could have said."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phasewise.match.aggregate import aggregate, find_place
from phasewise.match.page import render_match
from phasewise.records.base import Interval
from phasewise.records.exit_code import ExitCode
from phasewise.records.judgement import Judgement, Match
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, Guard, Outcome, TensorError
from phasewise.records.verdict import Reason, Status

SECRET = "0.73920518"


def make(candidate: Path | str = "new.py", **fields) -> Match:
    one = Judgement(
        **{"status": Status.FASTER, "reference": "float64", "allowance": Allowance(rtol=1e-4, atol=1e-5), **fields}
    )
    return Match(
        base="base.py", candidate=str(candidate), device="cpu", seconds=51.2, exit_code=one.exit_code, next_step="stop here", judgements=(one,)
    )  # fmt: skip


def refused() -> Match:
    error = TensorError(
        kind="output", name=SECRET, step=0, elements=4, max_abs=0.73920518, relative=0.1, worst=739.20518, where=(7, 39), outcome=Outcome.FAIL,
        message=f"at [7, 39] it is {SECRET}",
    )  # fmt: skip
    guard = Guard(guard="repeated", outcome=Outcome.FAIL, message=f"it is {SECRET}")
    gate = CaseValidation(case="call", outcome=Outcome.FAIL, message=error.message, errors=(error,), guards=(guard,))
    return make(
        status=Status.INVALID, reason="wrong", detail=f"output {SECRET!r}: {error.message}", worst=739.20518, gate=gate
    )


def test_digits_are_few() -> None:
    found = make(ratio=Interval(estimate=3.14159, low=2.71828, high=3.6), noise_limit=0.012345, worst=0.0123)
    (one,) = aggregate(found).summaries
    assert one.ratio == Interval(estimate=3.1, low=2.7, high=3.6) and one.noise_limit == 0.012 and one.off_by == 0.1


def test_of_a_wrong_result_neither_name_nor_place_nor_value_is_told() -> None:
    found = aggregate(refused())
    text = msgspec.json.encode(found).decode()
    assert found.exit_code is ExitCode.WRONG and found.summaries[0].off_by == 1000
    for part in (SECRET, "7392", "39", "output"):
        assert part not in text, text


@pytest.mark.parametrize(
    ("detail", "place"),
    [
        ("ValueError: no (new.py:2)", "new.py:2"),
        # not a line of that file, and not that file
        (f"ValueError: {SECRET} (new.py:73920)", ""),
        (f"ValueError: no ({SECRET}.py:2)", ""),
        ("ValueError: no", ""),
    ],
)
def test_of_a_crash_only_a_line_of_its_own_file_is_told(tmp_path: Path, detail: str, place: str) -> None:
    (file := tmp_path / "new.py").write_text("import torch\nraise ValueError\n")
    found = make(
        file, status=Status.FAILED, reason=Reason.CRASH, detail=detail, traceback=f"raise ValueError({SECRET})"
    )
    (one,) = aggregate(found).summaries
    assert one.place == place == find_place(detail, file) and SECRET not in msgspec.json.encode(one).decode()


def test_a_page_tells_all_of_it_and_escapes_what_the_candidate_says() -> None:
    found = refused()
    text = render_match(found)
    assert (
        SECRET in text
        and "the candidate is refused" in text
        and "repeated" in text
        and "http" not in text.split("<body", 1)[1]
    )
    hostile = make(
        status=Status.FAILED, reason=Reason.CRASH, detail="<script>alert(1)</script>", traceback="<img src=x onerror=g>"
    )
    text = render_match(hostile)
    assert "<script>alert" not in text and "<img src=x" not in text and "&lt;img src=x" in text
    assert "3.14×" in render_match(make(ratio=Interval(estimate=3.14159, low=2.7, high=3.6), noise_limit=0.01))
