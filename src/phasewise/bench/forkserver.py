"""A fork server: a process that has imported torch, from which workers are forked that need not import it again.

An import takes two seconds of a core, and the graph of a small workload has a hundred workers. The server builds nothing, so what is
forked from it is as clean as a fresh process; but all that is forked from one server has the same layout of memory. Where processes are to
show how they differ, each set of them therefore has a server of its own. A worker whose environment torch reads at import starts fresh.

A profile worker imports torch.profiler and torch-tb-profiler as well, which takes another four seconds. A second server has imported these:
a child of the first, forked when it is first asked for. What is timed comes from the first, but for an export and the module that it was
made from: they need the compiler, which the profiler's tools bring along. The second server of a set of processes has imported the
compiler alone, for programs that import it, as their gates have told.

`python -m phasewise.bench.forkserver LISTENER_FD TOOLED_LISTENER_FD TOOL...` serves until its stdin ends; what it forked ends with it. No
server imports torch before its first request. A tool is a module to import, or `module:function`, which is called once as well.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasewise.bench.leave import leave
from phasewise.bench.no_gc import no_gc
from phasewise.model.apart import die_with_parent
from phasewise.workers.descendants import adopt_orphans, end_descendants, end_orphans

# most bytes of a request, which holds the environment: what a socket takes at once (net.core.wmem_default)
REQUEST_BYTES = 200_000
# READ_FD and WRITE_FD of the worker and its stderr, then its files
DESCRIPTORS = 3
MOST_DESCRIPTORS = 32


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a client wants to be forked, as it reached the child."""

    descriptors: tuple[int, ...]
    surroundings: dict[str, Any]


@dataclass
class Server:
    """The listener, and a connection for each worker that lives: when one of the two ends, so does the other."""

    listener: socket.socket
    # what its workers need beside torch
    tools: tuple[str, ...] = ()
    # where the second server is asked for, with what its workers need; None where it is there, and in itself
    tooled: tuple[socket.socket, tuple[str, ...]] | None = None
    # the second server, a child of the first
    second: int | None = None
    workers: dict[int, socket.socket] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    @property
    def listeners(self) -> tuple[socket.socket, ...]:
        """Its own, and that of the second server while that is not there."""
        return (self.listener, *(() if self.tooled is None else self.tooled[:1]))

    def serve(self) -> Order | None:
        """Fork for whoever asks. Returns in a child with its order, and in the server with None once stdin has ended."""
        # a byte arrives here whenever a child has ended
        ended, wakes = socket.socketpair()
        for end in (ended, wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno())
        for source in (sys.stdin, ended, *self.listeners):
            self.selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                order, is_second = None, False
                if key.fileobj is ended:
                    ended.recv(REQUEST_BYTES)
                    self._reap()
                elif key.fileobj is self.listener:
                    order = self._fork()
                elif key.fileobj in self.listeners:
                    is_second = self._start_second()
                elif key.fileobj is not sys.stdin:
                    self._drop(key.data)
                if order is not None or is_second or key.fileobj is sys.stdin:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for end in (ended, wakes):
                        end.close()
                    return self.serve() if is_second else order

    def close(self) -> None:
        """End all workers and what they left; the folder of the sockets goes with the last of them."""
        for pid in list(self.workers):
            self._drop(pid)
        if self.second is not None:
            os.waitpid(self.second, 0)
        end_descendants(os.getpid())
        with contextlib.suppress(OSError):
            paths = [Path(listener.getsockname()) for listener in self.listeners]
            for path in paths:
                path.unlink()
            paths[0].parent.rmdir()

    def _start_second(self) -> bool:
        """Fork the second server from this one, which has imported torch by then; whether this is the second now."""
        assert self.tooled is not None, "it is asked for once"
        listener, tools = self.tooled
        _import(self.tools)
        server, pid = os.getpid(), os.fork()
        if pid:
            self.selector.unregister(listener)
            listener.close()
            self.tooled, self.second = None, pid
            return False
        die_with_parent()
        if os.getppid() != server:
            os._exit(1)
        # processes that its workers leave behind become its children
        adopt_orphans()
        self.selector.close()
        for opened in (self.listener, *self.workers.values()):
            opened.close()
        self.listener, self.tools, self.tooled = listener, tools, None
        self.workers, self.selector = {}, selectors.DefaultSelector()
        return True

    def _fork(self) -> Order | None:
        """In a child its order, with nothing of the server left open."""
        connection, _ = self.listener.accept()
        request, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES, MOST_DESCRIPTORS)
        if len(descriptors) < DESCRIPTORS:
            # the client went before it had asked
            for descriptor in descriptors:
                os.close(descriptor)
            connection.close()
            return None
        _import(self.tools)
        server = os.getpid()
        pid = os.fork()
        if pid:
            for descriptor in descriptors:
                os.close(descriptor)
            self.workers[pid] = connection
            self.selector.register(connection, selectors.EVENT_READ, data=pid)
            return None
        die_with_parent()
        if os.getppid() != server:
            # the server ended before this process was tied to it
            os._exit(1)
        os.setsid()
        # from now on the client may end its process group
        connection.send(str(os.getpid()).encode())
        self.selector.close()
        for opened in (connection, *self.listeners, *self.workers.values()):
            opened.close()
        return Order(descriptors=tuple(descriptors), surroundings=json.loads(request))

    def _reap(self) -> None:
        """Tell the clients of the workers that have ended how they did, and end what these left."""
        for pid in list(self.workers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                connection = self._forget(pid)
                with contextlib.suppress(OSError):
                    connection.send(str(os.waitstatus_to_exitcode(status)).encode())
                connection.close()
        end_orphans({*self.workers, self.second})

    def _drop(self, pid: int) -> None:
        """End a worker that nobody waits for any more, with all that it started."""
        end_descendants(pid)
        os.kill(pid, signal.SIGKILL)
        # it may have no group of its own yet
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._forget(pid).close()

    def _forget(self, pid: int) -> socket.socket:
        connection = self.workers.pop(pid)
        self.selector.unregister(connection)
        return connection


@functools.cache
def _import(tools: tuple[str, ...]) -> None:
    """Import what every worker needs, once, and freeze the heap: a collection would write to all of its pages in each child."""
    with no_gc():
        import phasewise.bench.commands  # noqa: F401

        for tool in tools:
            name, _, function = tool.partition(":")
            # one that is not there, or finds no compiler of C++, says so where it is wanted
            with contextlib.suppress(ImportError, RuntimeError):
                module = importlib.import_module(name)
                if function:
                    getattr(module, function)()
    gc.freeze()


def _surround(order: Order) -> tuple[int, ...]:
    """Make this child what a fresh process would be; returns the descriptors of its channel, and of its files."""
    read_fd, write_fd, stderr, *files = order.descriptors
    with Path(os.devnull).open("r+b") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    os.dup2(stderr, 2)
    os.close(stderr)
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(order.surroundings["environment"])
    os.sched_setaffinity(0, order.surroundings["cores"])
    os.chdir(order.surroundings["folder"])
    # `python -m` puts its folder first: this one's own in the place of the server's
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(Path.cwd()), *(entry for entry in given if entry and entry not in sys.path[1:])]
    # random numbers of its own; Python's generator reseeds itself after a fork
    torch, numpy = sys.modules["torch"], sys.modules["numpy"]
    torch.seed()
    numpy.random.seed()
    return read_fd, write_fd, *files


if __name__ == "__main__":
    plain, tooled = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3])
    # processes that its workers leave behind become its children
    adopt_orphans()
    server = Server(plain, tooled=(tooled, tuple(sys.argv[3:])))
    order = server.serve()
    if order is None:
        server.close()
    else:
        surrounded = _surround(order)
        importlib.import_module(order.surroundings["module"]).main(*surrounded)
        leave()
