"""Loops: the longest stretch of a step in which the same sequence of operators comes again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasewise.profile.trace import Event

# the longest body of a loop that is looked for, in operators
LONGEST = 2048
# fewer passes are no loop
PASSES = 3


@dataclass(frozen=True)
class Loop:
    """One periodic stretch."""

    # index of its first operator, operators of one pass, passes
    first: int
    period: int
    passes: int


def find_loop(names: Sequence[str]) -> Loop | None:
    """The periodic stretch of most passes, of equals the one that covers more; None if nothing comes three times.

    Names alone decide, since shapes grow from pass to pass in generation.
    """
    codes: dict[str, int] = {}
    series = np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int32)
    best: Loop | None = None
    for period in range(1, min(LONGEST, len(series) // PASSES) + 1):
        first, matches = _longest_run(series[:-period] == series[period:])
        passes = matches // period + 1
        if passes >= PASSES and (best is None or (passes, passes * period) > (best.passes, best.passes * best.period)):
            best = Loop(first, period, passes)
    return best


def describe_loop(events: Sequence[Event], loop: Loop) -> tuple[str, int]:
    """The operator of the body in which most time goes, and the nanoseconds from the first to the last pass."""
    stretch = events[loop.first : loop.first + loop.period * loop.passes]
    spent: dict[str, int] = {}
    for event in stretch:
        spent[event.name] = spent.get(event.name, 0) + event.duration
    heaviest = max(spent, key=lambda name: (spent[name], name))
    return heaviest, max(event.end for event in stretch) - stretch[0].start


def _longest_run(same: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    if not same.any():
        return 0, 0
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])
