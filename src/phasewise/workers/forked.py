"""A worker that was forked from the fork server, seen from outside: the part of `subprocess.Popen` that a `Process` uses."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from phasewise.workers.forkserver import SERVER

# the server may have to import torch first
PATIENCE_S = 60.0
ANSWER_BYTES = 64


class Forked:
    """Its exit status comes over the connection. If the server is gone, the kernel has killed the worker with it."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit status, negative for a signal, once it has ended."""
        if self._code is None and self._is_told(0.0):
            self._read()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status when it has ended; raises subprocess.TimeoutExpired."""
        if self._code is None and not self._is_told(timeout):
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return self._read() if self._code is None else self._code

    def _is_told(self, timeout_s: float | None) -> bool:
        return bool(select.select([self._connection], [], [], timeout_s)[0])

    def _read(self) -> int:
        try:
            answer = self._connection.recv(ANSWER_BYTES)
        except ConnectionError:
            answer = b""
        self._code = int(answer) if answer else -signal.SIGKILL
        self._connection.close()
        return self._code


def fork_worker(
    descriptors: Sequence[int], *, module: str, environment: Mapping[str, str], folder: Path, server: str = ""
) -> Forked | None:
    """A worker that runs `module` with these descriptors: two of its channel, its stderr, its files. None where there is no server to ask.

    `server`: which one, by the suffix of its socket; "" is the run's first.
    """
    path = os.environ.get(SERVER)
    if path is None:
        return None
    path += server
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE_S)
    request = {
        "module": module, "environment": dict(environment), "folder": str(folder),
        "cores": sorted(os.sched_getaffinity(0)),
    }  # fmt: skip
    try:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode()], list(descriptors))
        answer = connection.recv(ANSWER_BYTES)
    except OSError:
        answer = b""
    if not answer:
        connection.close()
        return None
    connection.settimeout(None)
    return Forked(connection, int(answer))
