"""JSON lines over a pair of pipes, so that whatever user code prints can't be taken for an answer."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

CHUNK = 1 << 16


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
        """The next message; None at the end of the stream. Raises TimeoutError if it is not whole after `timeout_s`."""
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
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def close(self) -> None:
        """Close both pipes; the other end sees the end of the stream."""
        os.close(self.read_fd)
        os.close(self._write_fd)
