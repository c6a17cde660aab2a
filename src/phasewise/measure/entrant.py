"""An arm as it is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phasewise.records.base import Scalar
from phasewise.workers.arm import Launch
from phasewise.workers.warmup import Warmed


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """An arm that is to be measured."""

    arm: str
    variant: str
    # what it runs on, "cpu" or a GPU: by that it is warmed up
    device: str
    # how its process starts in each set; the last is for all sets after it, too
    launches: Sequence[Launch] = ()
    # the process of the first set has empty compile caches
    fresh_caches: bool = False
    switches: Mapping[str, Scalar] = field(default_factory=dict)
    ranks: int = 1
    # steps are timed one by one, with the cache flushed before each
    cold: bool = False
    # one block a set, and a minute in all, where a step takes long
    once_if_slow: bool = False
    # single steps and placing are timed
    singles: bool = False
    energy: bool = False
    # its hooks are those of its parent, so that handing over takes it no longer
    shares_hooks: bool = False
    # how its processes were warmed up before; None where that is still to be done
    warmed: Warmed | None = None
