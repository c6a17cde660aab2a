"""What the metrics read of a summary; one of an older run may have fewer fields."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from phasewise.records.base import Interval
from phasewise.records.errors import RecordError
from phasewise.store import read_content

# as it stands in the file: a whole number stays one
Number = int | float


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a variant; None for what was not."""

    variant: str
    # seconds a step
    time_s: Number | None = None
    items_per_s: Number | None = None
    floor_fraction: Number | None = None
    peak_memory_bytes: Number | None = None
    # joules an item
    energy_j_per_item: Number | None = None


class Phase(Step, frozen=True, kw_only=True):
    """The same of a phase, and its gain."""

    speedup_baseline: Interval | None = None


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the kept phases, over the baseline."""

    variant: str | None = None
    speedup: Interval | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a case came to."""

    case: str
    baseline: Step | None = None
    phases: tuple[Phase, ...] = ()
    stack: Stack = Stack()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary."""

    schema: Literal[1]
    workload: str
    run: str
    cases: tuple[Case, ...]


def read_summary(path: Path) -> Summary:
    """The summary at `path`.

    Raises:
        RecordError: it can't be read, or is none.
    """
    try:
        return msgspec.json.decode(read_content(path), type=Summary)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError(
            f"{path}: not a summary of schema 1 ({error}); run `phasewise analyse` and `phasewise report` for it again"
        ) from error
