"""Lanes: jobs that share a GPU of the pool. They import and build side by side, and each times while no other does anything there.

Three kinds of lock files for each GPU:
- one a lane, held for the life of a job, and a door that is passed to take them;
- the quiet, the GPU's lock in runs without lanes too: shared by all who are at work, held alone by who times;
- a turnstile that is passed to take the quiet.

No wait is for ever: who wants the quiet holds none of this GPU's and of no later one's, and who waits for lanes holds no quiet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from phasewise.cli.locks import WAITING, open_lock, poll, try_lock, unlock, wait_lock
from phasewise.run.lane import Lane, find_at_rest


@dataclass(frozen=True)
class Quiet:
    """Of one GPU. Who waits for it stands in the turnstile and keeps later ones behind, so that builders can't starve a timing."""

    turnstile: int
    lock: int

    def take(self, *, shared: bool) -> None:
        wait_lock(self.turnstile)
        try:
            wait_lock(self.lock, shared=shared)
        finally:
            unlock(self.turnstile)

    def try_share(self) -> bool:
        """Whether it could be shared at once."""
        if not try_lock(self.turnstile):
            return False
        try:
            return try_lock(self.lock, shared=True)
        finally:
            unlock(self.turnstile)

    def leave(self) -> None:
        unlock(self.lock)


def share_quiet(held: contextlib.ExitStack, names: Mapping[str, str], count: int) -> list[str]:
    """Share the quiet of `count` of `names` (GPU -> its name on the locks), of those where nothing is timed if they suffice."""
    quiets = _open_quiets(held, names)
    gpus = list(names)
    # jobs begin at different ones
    first = os.getpid() % len(gpus)
    order = [*gpus[first:], *gpus[:first]]
    taken: list[str] = []
    for gpu in order:
        if len(taken) < count and quiets[gpu].try_share():
            taken.append(gpu)
    if len(taken) < count:
        for gpu in taken:
            quiets[gpu].leave()
        taken = order[:count]
        print(WAITING, file=sys.stderr, flush=True)
        for gpu in sorted(taken, key=gpus.index):
            quiets[gpu].take(shared=True)
    return sorted(taken, key=gpus.index)


def take_lane(held: contextlib.ExitStack, names: Mapping[str, str], count: int, lanes: int) -> tuple[list[str], Lane]:
    """A lane on each of `count` GPUs, and a share in their quiet until it is wanted alone."""
    gpus = _wait_for_lanes(held, names, count, lanes, wanted=1)
    quiets = _open_quiets(held, {gpu: names[gpu] for gpu in gpus})
    for quiet in quiets.values():
        quiet.take(shared=True)
    return gpus, Lane(alone=partial(_alone, list(quiets.values())), share=1 / lanes, at_rest=find_at_rest)


def take_whole(held: contextlib.ExitStack, names: Mapping[str, str], count: int, lanes: int) -> list[str]:
    """All lanes of `count` GPUs, so that nothing of another job lies in their memory, and their quiet alone."""
    gpus = _wait_for_lanes(held, names, count, lanes, wanted=lanes)
    for quiet in _open_quiets(held, {gpu: names[gpu] for gpu in gpus}).values():
        quiet.take(shared=False)
    return gpus


@contextlib.contextmanager
def _alone(quiets: Sequence[Quiet]) -> Iterator[None]:
    """Nobody else is at work on these GPUs, which are in the order of the pool: two jobs of several then can't block each other."""
    for quiet in quiets:
        quiet.leave()
    try:
        for quiet in quiets:
            quiet.take(shared=False)
        yield
    finally:
        # all are left before one is waited for
        for quiet in quiets:
            quiet.leave()
        for quiet in quiets:
            quiet.take(shared=True)


def _open_quiets(held: contextlib.ExitStack, names: Mapping[str, str]) -> dict[str, Quiet]:
    return {gpu: Quiet(open_lock(held, f"{name}-turnstile"), open_lock(held, name)) for gpu, name in names.items()}


def _wait_for_lanes(
    held: contextlib.ExitStack, names: Mapping[str, str], count: int, lanes: int, *, wanted: int
) -> list[str]:
    """Take `wanted` lanes, one or all, on each of `count` GPUs: the first lane of any before the second of another.

    What is got is kept. Who wants all lanes of a GPU shuts its door until they are there, or jobs of one lane would slip in
    for ever; and one job of several GPUs waits at a time, or two would wait for each other.
    """
    doors = {gpu: open_lock(held, f"{name}-door") for gpu, name in names.items()}
    files = {gpu: [open_lock(held, f"{name}-lane-{lane}") for lane in range(lanes)] for gpu, name in names.items()}
    taken: dict[str, set[int]] = {}

    def try_all() -> bool:
        for lane, gpu in product(range(lanes), names):
            mine = taken.get(gpu, set())
            if len(mine) == wanted or lane in mine or (not mine and len(taken) == count):
                continue
            if not mine and not try_lock(doors[gpu]):
                continue
            if try_lock(files[gpu][lane]):
                taken[gpu] = mine | {lane}
            if len(taken.get(gpu, ())) in (0, wanted):
                unlock(doors[gpu])
        return sum(map(len, taken.values())) == count * wanted

    with contextlib.ExitStack() as turn:
        if count > 1:
            several = open_lock(turn, "several")
            poll(lambda: try_lock(several))
        poll(try_all)
    return sorted(taken, key=list(names).index)
