"""Processes in modes: what few sets that agree may hide, seen in the other comparisons of a run.

Where whole processes are in one of two modes, three sets are in the same by chance in one comparison of forty, and look as
quiet as their rounds. Nothing in such a comparison tells; but others of the run then jump from set to set, by much more than
their rounds explain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from phasewise.stats.between import SetLevel

# five sets agree by chance in one comparison of five hundred
ENOUGH_SETS = 5
# a set jumps where it lies so many times as far off as its rounds explain; processes that differ at random reach 3 to 6
FAR = 10.0
# or so many times as far as the rounds of the comparison in question do, where spells within sets make rounds as noisy as sets
FAR_OF_OWN = 30.0
# jumps of single comparisons are their own affair
LEAST_SHARE = 0.25
# sets of which one lies off have a standard deviation of 0.58 times its distance
REACH = 2.0


def jump_limit(own: SetLevel, levels: Sequence[SetLevel]) -> float:
    """The log-ratio that a claim of a few sets alone must clear, where the comparisons of a run, `levels`, are seen to jump; else 0."""
    if own.sets >= ENOUGH_SETS:
        return 0.0
    known = [level for level in levels if level.sets > 1 and math.isfinite(level.within)]
    jumps = [
        math.sqrt(level.scatter)
        for level in known
        if level.scatter > min(FAR**2 * level.within, FAR_OF_OWN**2 * own.within)
    ]
    return REACH * max(jumps) if jumps and len(jumps) >= LEAST_SHARE * len(known) else 0.0
