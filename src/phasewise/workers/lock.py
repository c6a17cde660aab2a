"""Which GPU a job runs on, and the locks that keep others from it meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phasewise.environment import VISIBLE, name_gpus, read_pool
from phasewise.records.errors import UserError
from phasewise.workers.lock_file import LockFile

GPU = re.compile(r"\d+|GPU-[0-9a-f-]+")
POLL_S = 0.2
# how often a job says that it still waits
REMINDER_S = 30.0


def parse_gpus(text: str) -> tuple[str, ...]:
    """Entries of "0,1", as CUDA_VISIBLE_DEVICES takes them; raises UserError."""
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(GPU.fullmatch(entry) for entry in entries) or len(set(entries)) < len(entries):
        raise UserError(f"--gpus: {text!r} is no list of GPUs; write numbers or UUIDs, each once, such as 0,1")
    return entries


def count_shared(gpus: int) -> int:
    """Of so many GPUs, those that gates keep to: all but one, since what is timed waits for them, and has all at last."""
    return max(1, gpus - 1)


@contextlib.contextmanager
def lock_machine(device: str, *, shared: bool = False, ranks: int = 1) -> Iterator[None]:
    """Wait until no other job measures on the GPUs that this one sees, then keep others out of them.

    In a run with a pool a job sees one GPU of it for each of its `ranks`, the first that are free, and keeps to their share of
    the cores. What takes no times is `shared`: any number of such jobs run side by side, and none beside a measurement or a
    capture. A CPU is locked as a whole.
    """
    with contextlib.ExitStack() as locked:
        locked.enter_context(_lock_gpus(device, shared=shared, ranks=ranks))
        if shared and device != "cpu":
            capture = _name_capture_lock(device)
            _wait_for(locked, {capture: capture}, 1, shared=True)
        yield


@contextlib.contextmanager
def share_machine(device: str) -> Iterator[None]:
    """Keep measurements off the GPU that this job sees; while the job uses it, it takes `lock_captures` as well.

    Profiles do: much of one is imports and reading, which need no GPU. Of several GPUs it takes one that no gate is on, or its
    captures would wait for the last of all gates. A CPU is locked as a whole.
    """
    with _lock_gpus(device, shared=device != "cpu", ranks=1, captures=True):
        yield


@contextlib.contextmanager
def lock_captures(device: str) -> Iterator[None]:
    """Wait until no other process or thread captures on the GPU that this one sees, then keep them, and what takes no times, off it.

    Nothing has to be done on a CPU, which is locked as a whole.
    """
    if device == "cpu":
        yield
        return
    with contextlib.closing(LockFile(_lock_path(_name_capture_lock(device)))) as file:
        while not file.try_lock():
            time.sleep(POLL_S)
        yield


def _name_capture_lock(device: str) -> str:
    """That of the first GPU that is seen."""
    return f"{next(iter(name_gpus().values()), device)}.capture"


@contextlib.contextmanager
def _lock_gpus(device: str, *, shared: bool, ranks: int, captures: bool = False) -> Iterator[None]:
    """Lock the GPUs that the job sees."""
    pool = read_pool()
    names = {device: device}
    with contextlib.ExitStack() as locked:
        if device == "cpu":
            _wait_for(locked, names, 1, shared=shared)
        elif pool:
            names = name_gpus(pool)
            seen = _wait_for(locked, names, ranks, shared=shared, captures=captures and len(pool) > 1)
            locked.enter_context(_keeping_to(seen, pool))
        else:
            for gpu, name in (name_gpus() or names).items():
                _wait_for(locked, {gpu: name}, 1, shared=shared)
        yield


@contextlib.contextmanager
def _keeping_to(gpus: Sequence[str], pool: Sequence[str]) -> Iterator[None]:
    """Workers that are started now see these GPUs only, and run on their share of the cores: a compiler beside one GPU must not
    hold up launches on another.
    """
    seen, cores = os.environ.get(VISIBLE), sorted(os.sched_getaffinity(0))
    share = len(cores) // len(pool)
    os.environ[VISIBLE] = ",".join(gpus)
    if share:
        places = (pool.index(gpu) * share for gpu in gpus)
        os.sched_setaffinity(0, {core for place in places for core in cores[place : place + share]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        if seen is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = seen


def _wait_for(
    locked: contextlib.ExitStack, names: Mapping[str, str], count: int, *, shared: bool, captures: bool = False
) -> list[str]:
    """Lock the first `count` of `names` (GPU -> its name on the lock) that are free, until `locked` is closed.

    A job of several GPUs keeps each that it gets until it has all, or there would always be a smaller job before it. Only one
    does so at a time: two would wait for each other. Shared jobs try one of the last GPUs first, whichever, and leave the others to
    jobs that take times. Those that capture try any, and take none that gates are on.
    """
    gpus = list(names)
    order = random.sample(gpus, len(gpus)) if captures else _order_shared(gpus) if shared else gpus
    files = {gpu: _open(locked, names[gpu]) for gpu in order}
    taken: list[str] = []
    reminder = time.monotonic()
    with contextlib.ExitStack() as alone:
        if count > 1:
            _wait_for(alone, {"several": "several"}, 1, shared=False)
        while True:
            for gpu, file in files.items():
                if len(taken) == count or gpu in taken or (captures and _has_gates(names[gpu])):
                    continue
                if file.try_lock(shared=shared):
                    taken.append(gpu)
            if len(taken) == count:
                return sorted(taken, key=gpus.index)
            if time.monotonic() >= reminder:
                print("others are at work on this machine; waiting for them", file=sys.stderr, flush=True)
                reminder = time.monotonic() + REMINDER_S
            time.sleep(POLL_S)


def _order_shared(gpus: Sequence[str]) -> list[str]:
    """In which order shared jobs try these: no lock tells how many hold it, so they are spread by chance."""
    last = gpus[-count_shared(len(gpus)) :]
    return [*random.sample(last, len(last)), *reversed(gpus[: -len(last)])]


def _has_gates(gpu: str) -> bool:
    """Whether gates are on that GPU now: they share what a capture has alone."""
    with contextlib.closing(LockFile(_lock_path(f"{gpu}.capture"))) as file:
        return not file.try_lock() and file.try_lock(shared=True)


def _lock_path(name: str) -> Path:
    return Path(os.environ.get("PHASEWISE_LOCK_DIR", tempfile.gettempdir())) / f"phasewise-{name}.lock"


def _open(locked: contextlib.ExitStack, name: str) -> LockFile:
    file = LockFile(_lock_path(name))
    locked.callback(file.close)
    return file
