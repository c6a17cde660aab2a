"""A traceback begins with the user's code, and names no folder of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.records.verdict import Failure, Reason
from phasewise.workers.failure import describe_exception
from phasewise.workers.isolated import run_isolated
from phasewise.workers.user_frames import shorten_path

OWN = """import torch

def step(n):
    return add(torch.ones(n)).tolist()

def add(x):
    return torch.add(x, torch.ones(7, 2, 3 + len(x)))
"""


def test_it_begins_with_the_user_s_first_frame_and_names_the_last(tmp_path: Path) -> None:
    (file := tmp_path / "own.py").write_text(OWN)
    found = run_isolated(f"{file}:step", 3, folder=tmp_path)
    assert isinstance(found, Failure) and found.reason is Reason.CRASH
    assert found.message.startswith("RuntimeError: The size of tensor a (3)") and found.message.endswith("(own.py:7)")
    lines = found.traceback.splitlines()
    assert lines[:3] == [
        "Traceback (most recent call last):",
        '  File "own.py", line 4, in step',
        "    return add(torch.ones(n)).tolist()",
    ]
    assert lines[-1].startswith("RuntimeError: ") and "phasewise" not in found.traceback
    assert str(tmp_path) not in found.traceback


def test_what_a_library_raises_is_placed_where_the_user_called_it(tmp_path: Path) -> None:
    (file := tmp_path / "own.py").write_text("import json\n\ndef step(n):\n    return json.loads('{')\n")
    found = run_isolated(f"{file}:step", 3, folder=tmp_path)
    assert found.message.endswith("(own.py:4)")
    assert 'File "decoder.py"' in found.traceback


def test_a_file_that_can_not_be_read_is_placed_by_its_line(tmp_path: Path) -> None:
    (file := tmp_path / "own.py").write_text("import os\n\ndef step(n:\n")
    found = run_isolated(f"{file}:step", 3, folder=tmp_path)
    assert "(own.py:3)" in found.message and str(tmp_path) not in found.traceback


def test_an_error_of_ours_has_no_traceback_of_a_user() -> None:
    try:
        shorten_path(None)  # type: ignore[arg-type]
    except TypeError as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        found = describe_exception(error)
    assert found.traceback == "" and found.message.startswith("TypeError: ")


@pytest.mark.parametrize(
    ("path", "short"), [("/a/b/site-packages/torch/nn/x.py", "torch/nn/x.py"), ("/usr/lib/zz/y.py", "y.py")]
)
def test_paths_are_shortened(path: str, short: str) -> None:
    assert shorten_path(path) == short
    assert shorten_path(str(Path.cwd() / "a" / "b.py")) == "a/b.py"
