"""What is told of a process that went without an answer."""

from __future__ import annotations

import signal
from pathlib import Path

from phasewise.records.verdict import Failure, Reason
from phasewise.workers.failure import describe_exit
from phasewise.workers.isolated import run_isolated

CRASHING = """
import ctypes

def load(payload):
    return open_library(payload)

def open_library(payload):
    ctypes.string_at(0)
"""


def test_an_interpreter_that_crashes_says_in_which_calls(tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    found = run_isolated(f"{tmp_path / 'crashing.py'}:load", None, folder=tmp_path)
    assert isinstance(found, Failure) and found.reason is Reason.CRASH
    assert found.message.startswith("killed by SIGSEGV in string_at (__init__.py:")
    assert ", called by open_library (crashing.py:8), called by load (crashing.py:5)" in found.message
    # never a path of the machine
    assert str(tmp_path) not in found.message


def test_what_a_library_said_last_is_kept_beside_where_it_crashed() -> None:
    log = 'CUDA error: out of memory\nFatal Python error: Aborted\n\nThread 0x2 (most recent call first):\n  File "/a/c.py", line 9 in wait\n\nCurrent thread 0x1 (most recent call first):\n  File "/a/b.py", line 3 in run\n\nExtension modules: x (total: 1)\n'
    found = describe_exit(-signal.SIGABRT, log)
    assert (found.reason, found.message) == (
        Reason.OUT_OF_MEMORY,
        "killed by SIGABRT in run (b.py:3): CUDA error: out of memory",
    )
    assert describe_exit(3, "no more\n").message == "exit status 3: no more"
