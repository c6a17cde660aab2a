"""Loops: the longest stretch of a step in which the same sequence of operators comes again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from phasewise.profile.trace import Event

# the longest body of a loop that is looked for, in operators
LONGEST = 2048
# fewer passes are no loop
PASSES = 3
# a body of so many operators may have a pass with more or fewer of them, such as one that skips a branch
BODY = 4


@dataclass(frozen=True)
class Loop:
    """One periodic stretch."""

    # index of its first operator, operators of one pass, passes that are alike
    first: int
    period: int
    passes: int
    # index behind its last operator
    end: int


def find_loop(names: Sequence[str]) -> Loop | None:
    """The periodic stretch of most passes, of equals the one that covers more; None if nothing comes three times.

    Names alone decide, since shapes grow from pass to pass in generation. A pass that differs parts the stretch only where fewer than
    three alike stand on one of its sides, or what differs is longer than two passes.
    """
    codes: dict[str, int] = {}
    series = np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int32)
    best: Loop | None = None
    for period in range(1, min(LONGEST, len(series) // PASSES) + 1):
        for loop in _find_stretches(series[:-period] == series[period:], period):
            if best is None or (loop.passes, loop.passes * period) > (best.passes, best.passes * best.period):
                best = loop
    return best


def _find_stretches(same: np.ndarray, period: int) -> Iterator[Loop]:
    """Of runs that are long enough to be loops, those joined that a broken pass parts."""
    found: Loop | None = None
    for first, matches in _find_runs(same, (PASSES - 1) * period):
        passes = matches // period + 1
        run = Loop(first, period, passes, first + period * passes)
        if found is not None and period >= BODY and first - found.end <= 2 * period:
            found = Loop(found.first, period, found.passes + passes, run.end)
            continue
        if found is not None:
            yield found
        found = run
    if found is not None:
        yield found


def describe_loop(events: Sequence[Event], loop: Loop) -> tuple[str, int]:
    """The operator of the body in which most time goes, and the nanoseconds from the first to the last pass."""
    stretch = events[loop.first : loop.end]
    spent: dict[str, int] = {}
    for event in stretch:
        spent[event.name] = spent.get(event.name, 0) + event.duration
    heaviest = max(spent, key=lambda name: (spent[name], name))
    return heaviest, max(event.end for event in stretch) - stretch[0].start


def _find_runs(same: np.ndarray, least: int) -> Iterator[tuple[int, int]]:
    """Start and length of each run of True that has at least so many."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    for index in np.flatnonzero(lengths >= least):
        yield int(starts[index]), int(lengths[index])
