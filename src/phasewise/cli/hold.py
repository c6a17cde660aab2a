"""Which GPU a job runs on, and how others are kept from it meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from phasewise.cli.lanes import share_quiet, take_lane, take_whole
from phasewise.cli.locks import open_lock, poll, try_lock
from phasewise.environment import name_gpus, read_lanes, read_pool
from phasewise.records.errors import UserError
from phasewise.run.lane import Lane

GPU = re.compile(r"\d+|GPU-[0-9a-f-]+")
# how many threads a library starts; Snakemake sets them to a job's threads, which are those of a lane
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def parse_gpus(text: str) -> tuple[str, ...]:
    """Entries of "0,1", as CUDA_VISIBLE_DEVICES takes them; raises UserError."""
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(GPU.fullmatch(entry) for entry in entries) or len(set(entries)) < len(entries):
        raise UserError(f"--gpus: {text!r} is no list of GPUs; write numbers or UUIDs, each once, such as 0,1")
    return entries


@contextlib.contextmanager
def hold_machine(device: str, *, shared: bool = False, in_lane: bool = False, ranks: int = 1) -> Iterator[Lane]:
    """Wait until no other job measures on the GPUs that this one sees, then keep others out of them.

    In a run with a pool a job sees one GPU of it for each of its `ranks`, the first that are free, and keeps to their share of
    the cores. What takes no times is `shared`: any number of such jobs run side by side, and none beside a measurement. A job
    `in_lane` shares its GPUs with others until it asks to be alone there, where the run has lanes. A CPU is held as a whole.
    """
    pool, lanes = read_pool(), read_lanes()
    lane = Lane()
    with contextlib.ExitStack() as held:
        if device == "cpu":
            _wait_for(held, {device: device}, 1, shared=shared)
        elif not pool:
            for name in name_gpus().values() or [device]:
                _wait_for(held, {name: name}, 1, shared=shared)
        else:
            names = name_gpus(pool)
            if lanes == 1:
                gpus = _wait_for(held, names, ranks, shared=shared)
            elif shared:
                gpus = share_quiet(held, names, ranks)
            elif in_lane:
                gpus, lane = take_lane(held, names, ranks, lanes)
            else:
                gpus = take_whole(held, names, ranks, lanes)
            held.enter_context(_keeping_to(gpus, pool, widened=lanes > 1 and not shared))
        yield lane


@contextlib.contextmanager
def _keeping_to(gpus: Sequence[str], pool: Sequence[str], *, widened: bool) -> Iterator[None]:
    """Workers that are started now see these GPUs only, and run on their share of the cores: a compiler beside one GPU must not
    hold up launches on another. With `widened`, libraries start as many threads as a GPU has cores, not as a lane has.
    """
    before, cores = dict(os.environ), sorted(os.sched_getaffinity(0))
    share = len(cores) // len(pool)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if share:
        os.environ.update({name: str(share) for name in THREADS if widened and name in before})
        places = (pool.index(gpu) * share for gpu in gpus)
        os.sched_setaffinity(0, {core for place in places for core in cores[place : place + share]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        os.environ.update({name: before[name] for name in ("CUDA_VISIBLE_DEVICES", *THREADS) if name in before})


def _wait_for(held: contextlib.ExitStack, names: Mapping[str, str], count: int, *, shared: bool) -> list[str]:
    """Lock the first `count` of `names` (GPU -> its name on the lock) that are free, until `held` is closed.

    A job of several GPUs keeps each that it gets until it has all, or there would always be a smaller job before it. Only one
    does so at a time: two would wait for each other. Jobs that share begin at different ones.
    """
    gpus = list(names)
    first = os.getpid() % len(gpus) if shared else 0
    handles = {gpu: open_lock(held, names[gpu]) for gpu in (*gpus[first:], *gpus[:first])}
    taken: list[str] = []

    def try_all() -> bool:
        for gpu in handles:
            if len(taken) < count and gpu not in taken and try_lock(handles[gpu], shared=shared):
                taken.append(gpu)
        return len(taken) == count

    with contextlib.ExitStack() as turn:
        if count > 1:
            _wait_for(turn, {"several": "several"}, 1, shared=False)
        poll(try_all)
    return sorted(taken, key=gpus.index)
