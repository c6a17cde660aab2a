"""Whatever a user's file does when it is loaded ends in one sentence."""

from __future__ import annotations

import re
import time

import pytest

from phasewise.model.apart import call_apart
from phasewise.records.errors import PlanError

# what a file may do -> what is told of it
FILES = {
    "raises": ("raise RuntimeError('boom')", "RuntimeError: boom (user_file.py, line 1)"),
    "system error": ("raise OSError(2, 'gone')", "gone"),
    "division": ("1 / 0", "ZeroDivisionError"),
    "key": ("{}['x']", "KeyError: 'x'"),
    "assertion": ("assert False, 'never'", "AssertionError: never"),
    "memory": ("raise MemoryError", "MemoryError"),
    "recursion": ("def f(): f()\nf()", "RecursionError"),
    "import error": ("from json import nothing", "cannot import name 'nothing'"),
    "missing module": ("import not_there_at_all", "not_there_at_all"),
    "base": ("class Odd(BaseException): pass\nraise Odd('x')", "Odd: x"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "group": ("raise ExceptionGroup('two', [ValueError(1), ValueError(2)])", "ExceptionGroup: two"),
    "syntax": ("def f(:", "SyntaxError: invalid syntax (user_file.py, line 1)"),
    "nul": ("x = '\0'", "null bytes"),
    "exit 0": ("import sys; sys.exit(0)", "ended Python with exit status 0"),
    "exit text": ("import sys; sys.exit('I leave')", "exit status 1 (I leave)"),
    "hard exit": ("import os; os._exit(0)", "ended Python with exit status 0"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "abort": ("import os; os.abort()", "SIGABRT"),
    "kills itself": ("import os, signal; os.kill(0, signal.SIGKILL)", "SIGKILL"),
    "loops": ("while True: pass", "not read after 2 s"),
    "waits": ("import time; time.sleep(1e6)", "not read after 2 s"),
    "ignores signals": ("import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass", "after 2 s"),
    "leaves a child": ("import subprocess, sys; subprocess.Popen(['sleep', '1000']); sys.exit(0)", "exit status 0"),
    "surrogate": ("raise ValueError('\\ud800\\0')", "ValueError: \ufffd\ufffd"),
    "escapes": ("raise ValueError('\\x1b[2J\\x1b]0;x\\x07')", "ValueError: \ufffd[2J\ufffd]0;x\ufffd"),
    "unspeakable": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError('no')\nraise Mute",
        "exit status 1",
    ),
    "garbage": ("import os\nfor n in range(3, 1000):\n try: os.write(n, b'garbage\\n')\n except OSError: pass", "wrote into"),
    "closes all": ("import os; os.closerange(0, 100)", "ended"),
    "no hook": ("import sys; sys.excepthook = lambda *_: None; 1 / 0", "exit status 1"),
}  # fmt: skip


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "user_file.py"


@pytest.mark.parametrize(("text", "words"), FILES.values(), ids=FILES)
def test_what_a_file_does_is_one_sentence(text, words, user_file):
    user_file.write_text(f"{text}\ndef read(payload): return payload\n")
    began = time.monotonic()
    with pytest.raises(PlanError) as caught:
        call_apart("user_file:read", [1], int, places=["user_file.py"], timeout_s=2)
    told = str(caught.value)
    assert told.startswith("user_file.py: ") and words in told
    assert told.isprintable() and len(told) < 700
    assert time.monotonic() - began < 30


def test_results_come_back_in_order_and_the_place_at_fault_is_named(user_file):
    user_file.write_text("def double(n):\n    print('x' * n)\n    return 2 * n if n < 10 else 1 / 0\n")
    places = ["a", "b", "c"]
    assert call_apart("user_file:double", [1, 2, 3], int, places=places) == [2, 4, 6]
    assert call_apart("user_file:double", [9, 9, 9_000_000][:2], int, places=places[:2]) == [18, 18]
    with pytest.raises(PlanError, match=re.escape("b: ZeroDivisionError")):
        call_apart("user_file:double", [1, 20, 3], int, places=places)


def test_a_result_of_another_kind_is_refused(user_file):
    user_file.write_text("def read(payload): return 'text'\n")
    with pytest.raises(PlanError, match=r"^place: "):
        call_apart("user_file:read", [1], int, places=["place"])
