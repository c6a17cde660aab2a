"""How many threads a build has while others build beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


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
