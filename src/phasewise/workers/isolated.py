"""One function call in a process of its own, with a time limit, and its death told apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phasewise.records.verdict import Failure
from phasewise.workers.enclosure import Enclosure
from phasewise.workers.failure import TRIES, ProcessFailed, is_kill
from phasewise.workers.forkserver import TOOLED
from phasewise.workers.process import Process, receive_all


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
    `environment` stands before anything is imported; `folder` is where it runs; with `memory_bytes` it may take at most
    so much more memory than it has at the call, on the GPU where there is one, else on the host; `tooled` and `enclosure` as of a `Process`. An exception, a signal, a
    lack of memory and silence for `timeout_s` come back as a `Failure`. A process that was killed from outside is started again.
    """
    for _ in range(TRIES):
        process = Process(
            environment=environment or {},
            folder=folder or Path.cwd(),
            server=TOOLED if tooled else "",
            enclosure=enclosure,
        )
        try:
            process.send("call", function=function, payload=payload, memory_bytes=memory_bytes)
            found = receive_all([process], function.rpartition(":")[2].removesuffix("_plain"), timeout_s)[0]
        except ProcessFailed as died:
            found = died.failure
        finally:
            process.close()
        if not is_kill(found):
            break
    return found
