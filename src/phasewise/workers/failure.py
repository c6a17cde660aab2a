"""Why a worker could not do its work: an exception, an exit status or a signal, as a failure with a reason code."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from phasewise.model.workload import Unsupported
from phasewise.records.errors import UserError
from phasewise.records.text import clean, clean_lines
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.user_frames import find_place, format_traceback

# how torch, CUDA, cuBLAS, XLA, C++ and the operating system say that memory ran out
MEMORY_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "std::bad_alloc",
    "resource_exhausted",
    "cublas_status_alloc_failed",
    "outofmemoryerror",
    "memoryerror",
)
# a line of a stack as faulthandler writes it, and how many of them tell enough
FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)')
FRAMES = 3
# of a message that goes into a record
MESSAGE_CHARACTERS = 500

# how often something is tried whose process is killed from outside, which is no fault of the program
TRIES = 3


class ProcessFailed(Exception):
    """A worker process could not do what it was asked."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def describe_exception(error: BaseException) -> Failure:
    """The failure that an exception in a worker amounts to."""
    name, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, Unsupported):
        return _failure(Reason.UNSUPPORTED, text or "not supported here")
    if isinstance(error, UserError):
        return _failure(Reason.BAD_PROGRAM, text)
    line = f"{name}: {text}" if text else name
    place = find_place(error)
    return Failure(
        reason=Reason.OUT_OF_MEMORY if _speaks_of_memory(line) else Reason.CRASH,
        message=clean(line)[:MESSAGE_CHARACTERS] + (f" ({clean(place)})" if place else ""),
        traceback=clean_lines(format_traceback(error)),
    )


def describe_exit(code: int, stderr: str, *, memory_ran_out: bool = False) -> Failure:
    """The failure that an exit status without an answer amounts to; `code` is negative for a signal.

    A SIGKILL that we did not send is lack of memory only if `memory_ran_out`: the kernel has counted one while the process lived.
    """
    log, where = _split_off_stack(stderr)
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    if code == -signal.SIGKILL and memory_ran_out:
        return _failure(Reason.OUT_OF_MEMORY, "killed by SIGKILL, and the kernel tells that memory had run out")
    if code == -signal.SIGKILL:
        return _failure(Reason.KILLED, "killed by SIGKILL, and the kernel tells of no lack of memory")
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    how = f"{how} in {where}" if where else how
    message = f"{how}: {last}" if last else how
    return _failure(Reason.OUT_OF_MEMORY if _speaks_of_memory(last) else Reason.CRASH, message)


def _split_off_stack(stderr: str) -> tuple[str, str]:
    """What was printed before the interpreter's last words, and the innermost calls that these name."""
    log, fatal, dump = stderr.partition("Fatal Python error: ")
    # of the thread that died, which is not always the first
    _, _, stack = dump.partition("Current thread")[2].partition("\n")
    calls = [FRAME.fullmatch(line.strip()) for line in stack.splitlines()[:FRAMES]]
    where = [f"{call['name']} ({Path(call['file']).name}:{call['line']})" for call in calls if call]
    return (log, ", called by ".join(where)) if fatal else (stderr, "")


def describe_timeout(what: str, timeout_s: float) -> Failure:
    """The failure of a worker that was killed because it did not answer."""
    return _failure(Reason.TIMEOUT, f"{what} was not done after {timeout_s:g} s")


def is_kill(result: object) -> bool:
    """Whether it is the failure of a process that was killed from outside."""
    return isinstance(result, Failure) and result.reason is Reason.KILLED


def _speaks_of_memory(text: str) -> bool:
    lower = text.lower()
    return any(sign in lower for sign in MEMORY_SIGNS)


def _failure(reason: Reason, message: str) -> Failure:
    return Failure(reason=reason, message=clean(message)[:MESSAGE_CHARACTERS])
