"""The export stage's half: a process that answers one request at a time, and may die at any of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from phasewise.records.export import ExportStatus
from phasewise.run.channel import Channel
from phasewise.run.death import describe_exit, describe_timeout
from phasewise.run.process import FAULT_HANDLER

# how long a worker may take to leave when its pipe closes
FAREWELL_S = 10.0


class Refused(Exception):
    """A worker could not do what it was asked, with the status and the sentence for the record."""

    def __init__(self, status: ExportStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def name_compiler() -> dict[str, str]:
    """CXX as a path, where it is not set and there is a g++.

    With torch 2.11 on an H200 machine AOTInductor's package of any program ends the process that loads it (SIGSEGV) if Inductor
    found its g++ by itself; by the path of the same compiler the package loads. Why is not known.
    """
    found = None if os.environ.get("CXX") else shutil.which("g++")
    return {"CXX": found} if found else {}


class Worker:
    """A fresh Python process running `module`, which calls `serve`."""

    def __init__(self, module: str, *, environment: Mapping[str, str], root: Path, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._root = root
        # libraries print at length; a file never blocks them
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(down_read), str(up_write)], stdin=subprocess.DEVNULL,
                stdout=self._log, stderr=self._log, cwd=root, env={**os.environ, **name_compiler(), **FAULT_HANDLER, **environment},
                pass_fds=(down_read, up_write), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(down_read)
            os.close(up_write)
        self._channel = Channel(up_read, down_write)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The worker's answer.

        Raises:
            Refused: UNSUPPORTED or SKIPPED as it says; FAILED if it crashed, was killed or ran out of time.
        """
        # the other end may be gone, which the missing answer tells
        with contextlib.suppress(BrokenPipeError):
            self._channel.send({"do": do, **request})
        try:
            answer = self._channel.receive(self._timeout_s)
        except TimeoutError:
            self._kill()
            raise Refused(ExportStatus.FAILED, describe_timeout(do, self._timeout_s).message) from None
        if answer is None:
            raise Refused(ExportStatus.FAILED, self._shorten(self._describe_death()))
        if answer.get("leaving"):
            # `is_alive` must not be asked before it is gone
            self._kill()
        for status in (ExportStatus.UNSUPPORTED, ExportStatus.FAILED, ExportStatus.SKIPPED):
            if status.value in answer:
                raise Refused(status, self._shorten(answer[status.value]))
        return answer

    def close(self) -> None:
        """End the process with all that it started."""
        self._channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(FAREWELL_S)
        self._kill()
        self._log.close()

    def _kill(self) -> None:
        # the session that start_new_session made: the worker and its compilers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _describe_death(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        return describe_exit(code, self._log.read().decode(errors="replace")).message

    def _shorten(self, message: str) -> str:
        """Records name paths below the project's folder."""
        return message.replace(f"{self._root.resolve()}/", "")
