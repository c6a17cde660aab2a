"""What needs a user's file happens in a process of its own, with a time limit: there the file may do what it likes.

`python -m phasewise.model.apart ANSWERS_FD TARGET` calls TARGET, "pkg.module:function", with each line of its stdin, a JSON value, and
answers each with a line: {"done": result} or {"refused": sentence}.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from phasewise.records.errors import PlanError, UserError
from phasewise.records.text import clean

T = TypeVar("T")
# a file may import torch, from a disk that is busy
TIMEOUT_S = 60.0
# how often a process is looked at whose pipe a child of it may hold open
PULSE_S = 0.5
CHUNK = 1 << 16
# of a message, and of the end of what a process printed
MESSAGE_CHARACTERS = 500
TAIL_BYTES = 1 << 12
# prctl(2)
PR_SET_PDEATHSIG = 1


def call_apart(
    target: str, payloads: Sequence[Any], kind: type[T], *, places: Sequence[str], timeout_s: float | None = None
) -> list[T]:
    """`target(payload)`, of `kind`, for each of the payloads, all in one process; each has a place, which an error names.

    A call may take `timeout_s`, by default TIMEOUT_S.

    Raises:
        PlanError: a call was refused, did something else than return, or took too long.
    """
    answers_fd, write_fd = os.pipe()
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, os.fdopen(answers_fd, "rb", 0) as pipe:
        given.writelines(msgspec.json.encode(payload) + b"\n" for payload in payloads)
        given.seek(0)
        try:
            process = subprocess.Popen(
                # without the folder of the call on its path, where a user's file may be called as one of Python's
                [sys.executable, "-P", "-m", __name__, str(write_fd), target],
                env={**os.environ, "PYTHONPATH": path},
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=printed,
                pass_fds=(write_fd,),
                # what it starts ends with it
                start_new_session=True,
            )
        finally:
            os.close(write_fd)
        try:
            lines = _Lines(pipe.fileno(), process)
            return [_read_answer(lines, kind, clean(place), timeout_s or TIMEOUT_S, printed) for place in places]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_answer(lines: _Lines, kind: type[T], place: str, timeout_s: float, printed: Any) -> T:
    try:
        line = lines.read(timeout_s)
    except TimeoutError:
        raise PlanError(f"{place}: it was not read after {timeout_s:g} s; does it wait, or loop for ever?") from None
    if line is None:
        raise PlanError(f"{place}: {_describe_end(lines.process.wait(), printed)}; it has to be importable")
    try:
        answer = msgspec.json.decode(line, type=_Answer)
        if not answer.refused:
            return msgspec.convert(answer.done, kind)
    except (msgspec.DecodeError, UnicodeError):
        raise PlanError(
            f"{place}: it wrote into the pipe of the process that reads it; close no file of others"
        ) from None
    raise PlanError(clean(answer.refused) if answer.by_us else f"{place}: {clean(answer.refused)[:MESSAGE_CHARACTERS]}")


class _Answer(msgspec.Struct):
    done: Any = None
    refused: str = ""
    # whether `refused` is a whole sentence, with its place
    by_us: bool = False


class _Lines:
    """Lines of a pipe whose process may go, hang, or leave a child that holds the pipe."""

    def __init__(self, pipe: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._pipe = pipe
        self._pending = b""

    def read(self, timeout_s: float) -> bytes | None:
        """The next line; None if the process ended without one. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            ended = self.process.poll() is not None
            if not select.select([self._pipe], [], [], 0 if ended else PULSE_S)[0]:
                if ended:
                    return None
                if time.monotonic() > deadline:
                    raise TimeoutError
                continue
            chunk = os.read(self._pipe, CHUNK)
            if not chunk:
                self.process.wait(max(0.0, deadline - time.monotonic()))
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line


def _describe_end(code: int, printed: Any) -> str:
    how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended Python with exit status {code}"
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - TAIL_BYTES))
    lines = [line for line in printed.read().decode(errors="replace").splitlines() if line.strip()]
    return f"{how} ({clean(lines[-1].strip())[:MESSAGE_CHARACTERS]})" if lines and code > 0 else how


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone: what hangs would never see its pipe close."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    # Linux only
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(answers_fd: int, target: str) -> None:
    """Answer each line of stdin; whatever else than a UserError is raised ends the process, with an answer if that is possible."""
    die_with_parent()
    os.set_inheritable(answers_fd, False)
    sys.excepthook = _make_hook(answers_fd)
    module, _, name = target.partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    for line in sys.stdin.buffer:
        try:
            answer: dict[str, Any] = {"done": function(msgspec.json.decode(line))}
        except UserError as error:
            answer = {"refused": clean(str(error)), "by_us": True}
        _write(answers_fd, answer)


def _make_hook(answers_fd: int) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """An exception hook that answers before the process goes."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        frames = traceback.extract_tb(trace)
        where = (
            ""
            if isinstance(error, SyntaxError) or not frames
            else f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
        )
        _write(answers_fd, {"refused": f"{clean(f'{kind.__name__}: {error}')}{where}"})

    return hook


def _write(answers_fd: int, answer: dict[str, Any]) -> None:
    line = msgspec.json.encode(answer) + b"\n"
    while line:
        line = line[os.write(answers_fd, line) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
