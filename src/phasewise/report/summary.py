"""What the README's table and the metrics read of a summary; one of an older run may have fewer fields."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from phasewise.records.base import Interval
from phasewise.records.errors import RecordError
from phasewise.records.verdict import Status
from phasewise.store import read_content

# as it stands in the file: a whole number stays one
Number = int | float


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a variant; None for what was not."""

    variant: str
    # seconds a step
    time_s: Number | None = None
    low_s: Number | None = None
    high_s: Number | None = None
    items_per_s: Number | None = None
    floor_fraction: Number | None = None
    peak_memory_bytes: Number | None = None
    # joules an item
    energy_j_per_item: Number | None = None

    @property
    def time(self) -> Interval | None:
        if self.time_s is None or self.low_s is None or self.high_s is None:
            return None
        return Interval(estimate=self.time_s, low=self.low_s, high=self.high_s)


class Phase(Step, frozen=True, kw_only=True):
    """The same of a phase, and what became of it."""

    kept: bool = False
    speedup_baseline: Interval | None = None


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the kept phases, over the baseline."""

    variant: str | None = None
    speedup: Interval | None = None
    at_least: Number | None = None
    status: Status | None = None
    chained: bool = False
    strongest_peer: str | None = None


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a peer over ours."""

    name: str
    ratio: Interval | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim has to exceed."""

    floor: Number | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a case came to."""

    case: str
    baseline: Step | None = None
    phases: tuple[Phase, ...] = ()
    stack: Stack = Stack()
    aa: Control | None = None
    peers: tuple[Peer, ...] = ()


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured."""

    name: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary."""

    schema: Literal[1]
    workload: str
    run: str
    device: str = ""
    environment: Environment = Environment()
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
