"""A process that opens something, then answers requests about it over two pipes until it is told to close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasewise.bench.worker import open_channel


def serve(
    read_fd: int, write_fd: int, begin: Callable[..., tuple[Any, Any]], answers: Mapping[str, Callable[..., Any]]
) -> None:
    """`begin(**arguments)` gives the state and the first answer; each `answers[command](state, **arguments)` another.

    An exception is told to the other end, and ends the process.
    """
    channel = open_channel(read_fd, write_fd)
    message = channel.receive()
    if message is None or message.pop("command") == "close":
        return
    state, first = begin(**message)
    channel.send({"answer": first})
    while (message := channel.receive()) is not None and (command := message.pop("command")) != "close":
        channel.send({"answer": answers[command](state, **message)})
