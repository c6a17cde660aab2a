"""What `phasewise diff` found between two runs of a workload."""

from __future__ import annotations

from phasewise.records.base import Interval, Record, Seconds
from phasewise.records.verdict import Status


class VerdictChange(Record, frozen=True, kw_only=True):
    """One phase whose status changed, or whose speed-up over its parent has an interval apart from the old one."""

    phase: str
    # None where the run has no such phase
    old: Status | None
    new: Status | None
    # speed-ups over the parent
    old_ratio: Interval | None
    new_ratio: Interval | None
    # its status fell, or its speed-up did beyond both intervals
    is_worse: bool


class KernelChange(Record, frozen=True, kw_only=True):
    """One kernel of the end of the stack, per step; 0 where it does not run."""

    name: str
    old_s: Seconds
    new_s: Seconds


class CaseDifference(Record, frozen=True, kw_only=True):
    """One case that both runs have."""

    case: str
    verdicts: tuple[VerdictChange, ...]
    kernels: tuple[KernelChange, ...]


class Difference(Record, frozen=True, kw_only=True):
    """All cases."""

    workload: str
    # names of the runs
    old: str
    new: str
    cases: tuple[CaseDifference, ...]
    # cases that only the old, and only the new run has
    went: tuple[str, ...]
    came: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        return any(change.is_worse for case in self.cases for change in case.verdicts)
