"""The worker's half of the talk with the export stage: named requests with plain values, in and out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from phasewise.bench.worker import die_with_parent
from phasewise.model.workload import Unsupported
from phasewise.workers.channel import Channel
from phasewise.workers.failure import describe_exception


def serve(handlers: Mapping[str, Callable[..., dict[str, Any]]], read_fd: int, write_fd: int) -> None:
    """Answer requests `{"command": name, ...}` over two pipes until one says "close" or the other end is gone.

    An exception ends the process, after it has said why in one line.
    """
    die_with_parent()
    # compilers that a library starts must not hold the pipes
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    channel = Channel(read_fd, write_fd)

    def report_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            channel.send({"failed": describe_exception(error).message, "leaving": True})
        sys.__excepthook__(kind, error, trace)

    sys.excepthook = report_crash
    while (request := channel.receive()) is not None and (command := request.pop("command")) != "close":
        try:
            channel.send(handlers[command](**request))
        except Unsupported as error:
            channel.send({"unsupported": str(error)})
        # how a script refuses its files
        except SystemExit as error:
            channel.send({"failed": str(error)})
