"""JSON lines over a pair of pipes, so that whatever user code prints can't be taken for an answer."""

from __future__ import annotations

import json
import os
import re
import select
import time
from typing import Any

CHUNK = 1 << 16
# a surrogate pair, which is one character, or half of one, which no record can hold
HALF = re.compile(rb"(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)
REPLACEMENT = rb"\ufffd"


class Channel:
    """One end of the conversation between a stage and a worker process."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self._write_fd = write_fd
        self._pending = b""

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; raises BrokenPipeError if the other end is gone."""
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(self._write_fd, line) :]

    def receive(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end of the stream.

        Raises:
            TimeoutError: it is not whole after `timeout_s`.
            ValueError: user code wrote something else into the pipe.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.read_fd, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._pending:
            if not poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            chunk = os.read(self.read_fd, CHUNK)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            message = json.loads(HALF.sub(lambda found: found[1] or REPLACEMENT, line))
        except RecursionError as error:
            raise ValueError("a message has few levels") from error
        if not isinstance(message, dict):
            raise ValueError("a message is an object")
        return message

    def close(self) -> None:
        """Close both pipes; the other end sees the end of the stream."""
        os.close(self.read_fd)
        os.close(self._write_fd)
