"""What `phasewise look` saw of a script."""

from __future__ import annotations

from phasewise.records.analyse import Finding
from phasewise.records.base import Interval, Record, Seconds
from phasewise.records.machine import Machine
from phasewise.records.profile import CaseProfile

# raised by one when a field changes its meaning or goes away
SCHEMA = 1


class Ceiling(Record, frozen=True, kw_only=True):
    """What a part of a step takes at least, at the rates that this machine was measured to reach."""

    # "products" or "launches"
    what: str
    seconds: Seconds
    # how it comes about: the amount and the rate
    basis: str


class Look(Record, frozen=True, kw_only=True):
    """Where a step of a script spends its time."""

    schema: int = SCHEMA
    # name of the script
    script: str
    # "optimizer", "call" or "function", and which
    step_kind: str
    step_name: str
    # steps that were left out before anything was timed
    warmup: int
    # of a step without the profiler: the mean, the fastest and the slowest of those that were timed
    step_s: Interval
    machine: Machine
    # of the traced steps
    profile: CaseProfile
    findings: tuple[Finding, ...]
    ceilings: tuple[Ceiling, ...]
    # what it did not see, one sentence each
    unseen: tuple[str, ...]
    # all of it, the script's start included
    seconds: Seconds
