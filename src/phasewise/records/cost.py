"""What a run took of its machine."""

from __future__ import annotations

from phasewise.records.base import Record, Seconds


class StageCost(Record, frozen=True, kw_only=True):
    """What one stage took, of all variants of the run."""

    stage: str
    # of variants, that took any time
    cases: int
    # of all of them
    seconds: Seconds
    # whether each had the device to itself
    alone: bool
