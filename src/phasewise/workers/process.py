"""A worker process seen from outside: started, asked, given up on and ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phasewise.records.errors import UserError
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.channel import Channel
from phasewise.workers.descendants import end, list_marked
from phasewise.workers.enclosure import Enclosure, find_inner
from phasewise.workers.failure import ProcessFailed, describe_exit, describe_timeout
from phasewise.workers.forked import Forked, fork_worker
from phasewise.workers.forkserver import TOOLED
from phasewise.workers.oom import count_oom_kills

# an interpreter that crashes says where
FAULT_HANDLER = {"PYTHONFAULTHANDLER": "1"}
# set in every worker, to a mark of its own that what it starts has too
WORKER = "PHASEWISE_WORKER"
# how often to look whether a worker lives: its pipe alone doesn't tell, since a child may hold it open
PULSE_S = 1.0
# variables, by prefix, that are read after a worker has started; any other has to stand before torch is imported
LATE = ("CXX", "TORCHINDUCTOR_", "TRITON_", "XLA_", "JAX_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "PYTHONPATH")
# and that is nothing to torch and its compiler
FOREIGN = ("XLA_", "JAX_")
NO_ANSWER = Failure(
    reason=Reason.BAD_PROGRAM, message="it wrote into the pipe of its answers; write to files of your own"
)
# how long a worker may take to leave when asked
FAREWELL_S = 10.0
# of the end of its stderr
TAIL_BYTES = 1 << 14


class Process:
    """`python -m MODULE READ_FD WRITE_FD FILE_FD...` with a channel to it. What it prints goes nowhere, its stderr to a file.

    Where the run has a fork server, it is forked there, unless it has an environment that torch reads when it is imported, or
    an `enclosure`. `server`: which one, by the suffix of its socket; None = it has to be fresh. `files`: descriptors that it
    inherits.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        folder: Path,
        server: str | None = "",
        module: str = "phasewise.bench.worker",
        files: Sequence[int] = (),
        enclosure: Enclosure | None = None,
    ) -> None:
        # a regular file: a worker that writes much to stderr never blocks on us
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._oom_kills = count_oom_kills()
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        own = (down_read, up_write, self._stderr.fileno(), *files)
        self._mark = uuid.uuid4().hex
        around = _environment(environment) | {WORKER: self._mark} | ({} if enclosure is None else enclosure.environment)
        try:
            if enclosure is not None or not all(name.startswith(LATE) for name in environment):
                server = None
            elif server is not None and not all(name.startswith(FOREIGN) for name in environment):
                # the compiler, too, reads its environment when it is imported
                server = server.removesuffix(TOOLED)
            forked = (
                None
                if server is None
                else fork_worker(own, module=module, environment=around, folder=folder, server=server)
            )
            self._process: subprocess.Popen[bytes] | Forked = forked or _spawn(own, module, around, folder, enclosure)
        finally:
            os.close(down_read)
            os.close(up_write)
        self.channel = Channel(up_read, down_write)
        self._ended = False
        self._is_enclosed = enclosure is not None

    @property
    def pid(self) -> int:
        return find_inner(self._process.pid) if self._is_enclosed else self._process.pid

    def send(self, command: str, **arguments: Any) -> None:
        """Ask for something; the answer is fetched by `receive_all`. Nothing is sent to a process that was ended."""
        if self._ended:
            return
        with contextlib.suppress(BrokenPipeError):
            self.channel.send({"command": command, **arguments})

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def describe_death(self, timeout_s: float) -> Failure | None:
        """Why it ended without an answer; None if it lives after `timeout_s`, as one that has only closed its channel does."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - TAIL_BYTES))
        memory_ran_out = count_oom_kills() > self._oom_kills
        return describe_exit(code, self._stderr.read().decode(errors="replace"), memory_ran_out=memory_ran_out)

    def close(self) -> None:
        """Ask it to leave, and make it leave if it does not."""
        if self._ended:
            return
        self.send("close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(FAREWELL_S)
        self.kill()

    def kill(self) -> None:
        """End it with all that it started, also in sessions of their own."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # of a forked one the server tells, and that may be stopped itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(FAREWELL_S)
        end(list_marked(WORKER, self._mark))
        self.channel.close()
        self._stderr.close()


def _spawn(
    descriptors: Sequence[int],
    module: str,
    environment: Mapping[str, str],
    folder: Path,
    enclosure: Enclosure | None,
) -> subprocess.Popen[bytes]:
    read_fd, write_fd, stderr, *files = descriptors
    command = [sys.executable, "-m", module, *map(str, (read_fd, write_fd, *files))]
    return subprocess.Popen(
        command if enclosure is None else enclosure.wrap(command, folder),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=(read_fd, write_fd, *files),
        # its children, such as compile workers, can be ended with it
        start_new_session=True,
    )


def receive_all(processes: Sequence[Process], what: str, timeout_s: float) -> list[Any]:
    """The answers of all `processes` to the command `what`, in their order.

    Raises:
        ProcessFailed: one of them failed, died or did not answer in time; all of them have been killed.
    """
    deadline = time.monotonic() + timeout_s
    answers: dict[int, dict[str, Any]] = {}
    try:
        while len(answers) < len(processes):
            waiting = [process for process in processes if process.channel.read_fd not in answers]
            for process in _ready(waiting, min(PULSE_S, max(0.0, deadline - time.monotonic()))):
                message = _read(process, deadline)
                if message is None:
                    raise ProcessFailed(describe_timeout(what, timeout_s))
                answers[process.channel.read_fd] = message
            if len(answers) < len(processes) and time.monotonic() > deadline:
                raise ProcessFailed(describe_timeout(what, timeout_s))
    except BaseException:
        for process in processes:
            process.kill()
        raise
    return [answers[process.channel.read_fd]["answer"] for process in processes]


def _ready(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Those with an answer on the way, or dead."""
    poll = select.poll()
    for process in processes:
        poll.register(process.channel.read_fd, select.POLLIN | select.POLLHUP)
    readable = {fd for fd, _ in poll.poll(timeout_s * 1000)}
    return [process for process in processes if process.channel.read_fd in readable or process.is_dead()]


def _read(process: Process, deadline: float) -> dict[str, Any] | None:
    """The answer that is on its way; None if it is not whole at the deadline. Raises ProcessFailed."""
    try:
        # a dead worker may have answered before it went; a child of it may keep the empty pipe open
        message = process.channel.receive(0.0 if process.is_dead() else max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        if not process.is_dead():
            return None
        message = None
    except ValueError as error:
        raise ProcessFailed(NO_ANSWER) from error
    if message is None:
        failure = process.describe_death(max(0.0, deadline - time.monotonic()))
        if failure is None:
            return None
        raise ProcessFailed(failure)
    if "failure" in message:
        try:
            raise ProcessFailed(msgspec.convert(message["failure"], Failure))
        except msgspec.ValidationError as error:
            raise ProcessFailed(NO_ANSWER) from error
    if "answer" not in message:
        raise ProcessFailed(NO_ANSWER)
    return message


def refuse_in_worker(what: str) -> None:
    """Raise UserError in a worker: it imports the user's file, where such a call would start workers without end."""
    if WORKER in os.environ:
        raise UserError(
            f"{what} is called while a worker imports this file, and would start workers that do so again; put the call under "
            'if __name__ == "__main__":'
        )


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours with `extra` over it, and with this package importable."""
    package = str(Path(__file__).parents[2])
    path = extra.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        **FAULT_HANDLER,
        **extra,
        "PYTHONPATH": os.pathsep.join(part for part in (package, path) if part),
    }
