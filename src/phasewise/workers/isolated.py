"""Function calls in a process of their own, with a time limit; if the process dies, the cause is told."""

from __future__ import annotations

import select
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from phasewise.records.verdict import Failure
from phasewise.workers.enclosure import Enclosure
from phasewise.workers.failure import TRIES, ProcessFailed, is_kill
from phasewise.workers.forkserver import TOOLED
from phasewise.workers.process import Process, receive_all


class Isolated:
    """A process that calls functions, one after the other; what it has imported stays. Arguments are those of `run_isolated`.

    Between `begin` and `finish` the caller may do something else.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        memory_bytes: int | None = None,
        folder: Path | None = None,
        tooled: bool = False,
        enclosure: Enclosure | None = None,
    ) -> None:
        self._start = partial(
            Process,
            environment=environment or {},
            folder=folder or Path.cwd(),
            server=TOOLED if tooled else "",
            enclosure=enclosure,
        )
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._process = self._start()
        # of the call that was begun; "" where there is none
        self._function, self._payload = "", None

    def begin(self, function: str, payload: Any) -> None:
        """Start a call, in a new process if the last one died. The call before has to be finished."""
        if self._process.is_dead():
            self._process.close()
            self._process = self._start()
        self._function, self._payload = function, payload
        self._process.send("call", function=function, payload=payload, memory_bytes=self._memory_bytes)

    def finish(self) -> Any | Failure:
        """The result of the call that was begun, or why there is none. Where the process was killed from outside, it is begun again."""
        found = self._receive()
        for _ in range(TRIES - 1):
            if not is_kill(found):
                break
            self.begin(self._function, self._payload)
            found = self._receive()
        self._function = ""
        return found

    def is_done(self) -> bool:
        """Whether `finish` would not wait."""
        return self._process.is_dead() or bool(select.select([self._process.channel.read_fd], [], [], 0)[0])

    def close(self) -> None:
        """End the process, without waiting for a call that was not finished."""
        if self._function:
            self._process.kill()
        self._process.close()

    def _receive(self) -> Any | Failure:
        what = self._function.rpartition(":")[2].removesuffix("_plain")
        try:
            return receive_all([self._process], what, self._timeout_s)[0]
        except ProcessFailed as died:
            return died.failure


def run_isolated(
    function: str,
    payload: Any,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
    memory_bytes: int | None = None,
    folder: Path | None = None,
    tooled: bool = False,
    enclosure: Enclosure | None = None,
) -> Any | Failure:
    """`function(payload)` in a fresh process: its result, or why there is none.

    `function` is "pkg.module:function" or "file.py:function"; `payload` and the result are plain JSON values.
    `environment` stands before anything is imported; `folder` is where it runs. With `memory_bytes` it may take at most so much more
    memory than it has at the call, on the GPU where there is one, else on the host. `tooled`: the tools of a profile may be imported
    already. `enclosure` as of a `Process`. An exception, a signal, a lack of memory and silence for `timeout_s` come back as a
    `Failure`. A process that was killed from outside is started again.
    """
    process = Isolated(
        environment=environment, timeout_s=timeout_s, memory_bytes=memory_bytes, folder=folder, tooled=tooled,
        enclosure=enclosure,
    )  # fmt: skip
    with closing(process):
        process.begin(function, payload)
        return process.finish()
