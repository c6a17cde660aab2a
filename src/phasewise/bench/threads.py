"""How many threads torch's operators on the host have, where that is not for the program to say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from phasewise.environment import count_host_threads


@contextlib.contextmanager
def share_cores(concurrent_builds: int) -> Iterator[None]:
    """Run torch's operators on our part of the cores while `concurrent_builds` other processes use the same ones; afterwards on all again.

    A thread that waits for the others of its operator spins. Where each process has a thread for every core, spinning threads keep
    those others from running: five builds at once took 7.7 s on the 16 cores of an H200 where one alone took 0.4 s.

    No step belongs in here: code that torch.compile made is compiled again when this number has changed.
    """
    threads = torch.get_num_threads()
    part = max(1, threads // (concurrent_builds + 1))
    torch.set_num_threads(part)
    yield
    # a program that has set it itself knows better
    if torch.get_num_threads() == part:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def use_host_threads() -> Iterator[None]:
    """Beside a GPU, compare results on the host with as many threads as help; no step belongs in here either."""
    threads = torch.get_num_threads()
    if torch.cuda.is_initialized():
        torch.set_num_threads(max(threads, count_host_threads()))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
