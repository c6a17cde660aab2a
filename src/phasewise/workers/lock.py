"""Which GPU a job runs on, and how others are kept from it meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from phasewise.environment import name_gpus, read_pool
from phasewise.records.errors import UserError

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


@contextlib.contextmanager
def lock_machine(device: str, *, shared: bool = False, ranks: int = 1) -> Iterator[None]:
    """Wait until no other job measures on the GPUs that this one sees, then keep others out of them.

    In a run with a pool a job sees one GPU of it for each of its `ranks`, the first that are free, and keeps to their share of
    the cores. What takes no times is `shared`: any number of such jobs run side by side, and none beside a measurement or the
    turn of a profile. A CPU is held as a whole.
    """
    with contextlib.ExitStack() as held:
        turn = held.enter_context(_hold(device, shared=shared, ranks=ranks))
        if shared and device != "cpu":
            _wait_for(held, {turn: turn}, 1, shared=True)
        yield


@contextlib.contextmanager
def share_machine(device: str) -> Iterator[Path | None]:
    """Keep measurements off a GPU, beside other jobs that do so; whoever locks the file has the GPU to itself for a turn.

    Profiles do: much of one is imports and reading, which need no GPU. A CPU is held as a whole, and has no turns.
    """
    with contextlib.ExitStack() as held:
        turn = held.enter_context(_hold(device, shared=device != "cpu", ranks=1))
        if device == "cpu":
            yield None
            return
        _open(held, turn)
        yield _lock_path(turn)


@contextlib.contextmanager
def _hold(device: str, *, shared: bool, ranks: int) -> Iterator[str]:
    """Wait, then keep others out; gives the name of the lock for turns on the GPU that the job sees first, which it steps on."""
    pool = read_pool()
    names = {device: device}
    with contextlib.ExitStack() as held:
        if device == "cpu":
            seen = _wait_for(held, names, 1, shared=shared)
        elif pool:
            names = name_gpus(pool)
            seen = _wait_for(held, names, ranks, shared=shared)
            held.enter_context(_keeping_to(seen, pool))
        else:
            names = name_gpus() or names
            seen = list(names)
            for gpu in seen:
                _wait_for(held, {gpu: names[gpu]}, 1, shared=shared)
        yield f"{names[seen[0]]}.turn"


@contextlib.contextmanager
def _keeping_to(gpus: Sequence[str], pool: Sequence[str]) -> Iterator[None]:
    """Workers that are started now see these GPUs only, and run on their share of the cores: a compiler beside one GPU must not
    hold up launches on another.
    """
    seen, cores = os.environ["CUDA_VISIBLE_DEVICES"], sorted(os.sched_getaffinity(0))
    share = len(cores) // len(pool)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if share:
        places = (pool.index(gpu) * share for gpu in gpus)
        os.sched_setaffinity(0, {core for place in places for core in cores[place : place + share]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        os.environ["CUDA_VISIBLE_DEVICES"] = seen


def _wait_for(held: contextlib.ExitStack, names: Mapping[str, str], count: int, *, shared: bool) -> list[str]:
    """Lock the first `count` of `names` (GPU -> its name on the lock) that are free, until `held` is closed.

    A job of several GPUs keeps each that it gets until it has all, or there would always be a smaller job before it. Only one
    does so at a time: two would wait for each other. Jobs that share begin at the last, and leave the others to those that time.
    """
    gpus = list(names)
    handles = {gpu: _open(held, names[gpu]) for gpu in (reversed(gpus) if shared else gpus)}
    taken: list[str] = []
    reminder = time.monotonic()
    with contextlib.ExitStack() as turn:
        if count > 1:
            _wait_for(turn, {"several": "several"}, 1, shared=False)
        while True:
            for gpu in handles:
                if len(taken) < count and gpu not in taken and _lock(handles[gpu], shared=shared):
                    taken.append(gpu)
            if len(taken) == count:
                return sorted(taken, key=gpus.index)
            if time.monotonic() >= reminder:
                print("another run is measuring on this machine; waiting for it", file=sys.stderr, flush=True)
                reminder = time.monotonic() + REMINDER_S
            time.sleep(POLL_S)


def _lock(handle: int, *, shared: bool) -> bool:
    """Whether the file could be locked at once."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_path(name: str) -> Path:
    return Path(os.environ.get("PHASEWISE_LOCK_DIR", tempfile.gettempdir())) / f"phasewise-{name}.lock"


def _open(held: contextlib.ExitStack, name: str) -> int:
    path = _lock_path(name)
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise UserError(
            f"{path}: the lock that keeps two runs from measuring at once can't be opened ({error.strerror}); "
            "set PHASEWISE_LOCK_DIR to a folder that you may write to"
        ) from error
    held.callback(os.close, handle)
    return handle
