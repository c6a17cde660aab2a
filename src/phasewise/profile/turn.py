"""The device in turns: a job's cases are profiled side by side, and what they read off their traces meanwhile needs no device.

The job serves at a socket; whoever connects has the turn until it hangs up, which it does however it ends. For a capture the job
itself has to be alone on its GPU, among those in other lanes; for a build it need not.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from phasewise.run.lane import Alone

ALONE, BESIDE = b"a", b"b"
GO = b"g"


@contextlib.contextmanager
def give_turns(path: Path, alone: Alone) -> Iterator[Path]:
    """Give turns at the socket `path`, first come first served, those for captures inside `alone`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = threading.Thread(target=_serve, args=(listener, alone), daemon=True)
        server.start()
        try:
            yield path
        finally:
            # wakes the thread
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            server.join()


@contextlib.contextmanager
def take_turn(path: Path | None, *, alone: bool = False) -> Iterator[None]:
    """Wait until no other process or thread has the turn at `path`, then keep it; without a path there is no other."""
    if path is None:
        yield
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.send(ALONE if alone else BESIDE)
        if connection.recv(1) != GO:
            raise ConnectionError("the job that gives turns has ended")
        try:
            yield
        finally:
            # what follows may disturb others, who may be alone now: the job has to be let in beside them first
            with contextlib.suppress(ConnectionError):
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)


def _serve(listener: socket.socket, alone: Alone) -> None:
    # closed where `alone` fails, or those who wait would wait for ever
    with listener:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(ConnectionError):
                kind = connection.recv(1)
                with alone() if kind == ALONE else contextlib.nullcontext():
                    connection.send(GO)
                    # until it hangs up
                    connection.recv(1)
