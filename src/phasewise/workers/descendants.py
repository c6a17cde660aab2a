"""What a process started, and what that started in turn: it ends with the process, whatever session it went into."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Collection, Iterable

import psutil

# prctl(2)
PR_SET_CHILD_SUBREAPER = 36
# what is killed may have started others meanwhile
PASSES = 5


def adopt_orphans() -> None:
    """What is started below this process stays below it when its own parent has gone."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    # Linux only
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def list_descendants(pid: int) -> list[psutil.Process]:
    """All processes below `pid`; none where it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def list_marked(variable: str, mark: str) -> list[psutil.Process]:
    """All processes that were started with this value of an environment variable, as far as it can be read."""
    return [
        process for process in psutil.process_iter(["environ"]) if (process.info["environ"] or {}).get(variable) == mark
    ]


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill those that still live; another process that was given the number of one is left alone."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def end_descendants(pid: int) -> None:
    """Kill all that lives below `pid`."""
    for _ in range(PASSES):
        living = [process for process in list_descendants(pid) if _lives(process)]
        if not living:
            return
        end(living)


def end_orphans(own: Collection[int | None]) -> None:
    """Kill what lives below this process and was started by one that has gone: its children but for its `own`, with all below them."""
    for child in psutil.Process().children():
        if child.pid not in own:
            end_descendants(child.pid)
            end([child])
            # what has not gone yet is taken leave of next time
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
