"""A process that calls functions, or opens one bench, and does what it is asked over two pipes.

`python -m phasewise.bench.worker READ_FD WRITE_FD [FILE_FD ...]`. A command is a line `{"command": name, ...arguments}`, its answer a
line `{"answer": ...}`; an exception is a line `{"failure": ...}`, and then the process ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from phasewise.bench.import_function import import_function
from phasewise.bench.leave import leave
from phasewise.bench.no_gc import no_gc
from phasewise.model.apart import die_with_parent
from phasewise.workers.channel import Channel
from phasewise.workers.descendants import adopt_orphans
from phasewise.workers.failure import describe_exception

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], None]


def main(read_fd: int, write_fd: int, *files: int) -> None:
    """Serve commands until told to close, or until the other end is gone."""
    channel = open_channel(read_fd, write_fd)
    message = channel.receive()
    if message is not None and message["command"] == "import":
        # the slow part of a start, done while the processes of other arms do theirs
        with no_gc():
            import phasewise.bench.commands  # noqa: F401
        channel.send({"answer": None})

        message = channel.receive()
    while message is not None and message["command"] == "call":
        message.pop("command")
        channel.send({"answer": _call(**message)})
        message = channel.receive()
    if message is None or message.pop("command") == "close":
        return
    # here, since a call may want to do without torch
    from phasewise.bench.commands import serve_bench

    serve_bench(channel, files, message)


def open_channel(read_fd: int, write_fd: int) -> Channel:
    """The channel to the process that started this one, which now ends with it, and tells it of an exception."""
    die_with_parent()
    adopt_orphans()
    # children of user code must not hold the pipes
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    channel = Channel(read_fd, write_fd)
    sys.excepthook = _make_hook(channel, sys.excepthook)
    return channel


def _call(function: str, payload: Any, memory_bytes: int | None) -> Any:
    """The result of `function(payload)`."""
    if memory_bytes is not None:
        import torch

        from phasewise.bench.memory import limit_memory

        limit_memory(memory_bytes, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    with no_gc():
        found = import_function(function)
    return found(payload)


def _make_hook(channel: Channel, shown: Hook) -> Hook:
    """An exception hook that tells the other end before the process goes."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        failure = describe_exception(error)
        with contextlib.suppress(BrokenPipeError):
            channel.send({"failure": msgspec.to_builtins(failure)})
        shown(kind, error, trace)

    return hook


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
    leave()
