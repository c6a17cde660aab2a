"""The worker's half of the talk with the export stage: named requests with plain values, in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasewise.bench.worker import open_channel
from phasewise.model.workload import Unsupported


def serve(handlers: Mapping[str, Callable[..., dict[str, Any]]], read_fd: int, write_fd: int) -> None:
    """Answer requests `{"command": name, ...}` over two pipes until one says "close" or the other end is gone.

    What is not supported, and files that a script refuses, are answers too. An exception ends the process, after it has said why.
    """
    channel = open_channel(read_fd, write_fd)
    while (request := channel.receive()) is not None and (command := request.pop("command")) != "close":
        try:
            answer = handlers[command](**request)
        except Unsupported as error:
            answer = {"unsupported": str(error)}
        # how a script refuses its files
        except SystemExit as error:
            answer = {"failed": str(error)}
        channel.send({"answer": answer})
