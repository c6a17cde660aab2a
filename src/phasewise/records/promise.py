"""What the user's document promises, line by line, and what answers each line."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from phasewise.records.base import Counted, Positive, Record

Words = Annotated[str, Meta(min_length=1, max_length=200)]
# the comparison with the float64 reference, which is no check with a name of its own
GATE = "gate"
ANSWERS = ("target", "check", "phase", "risk", "why")


class Kept(StrEnum):
    """What became of a promise."""

    # more than its high end
    BEATEN = "beaten"
    KEPT = "kept"
    UNDECIDED = "undecided"
    BROKEN = "broken"
    # by the study, whose number is of something else
    DISOWNED = "disowned"
    UNMEASURED = "not measured"
    # a guess, a probability, or what nothing measured answers
    NO_PROMISE = "no promise"


class Promise(Record, frozen=True, kw_only=True):
    """A number or a line to tick, and the one thing that answers it; `phase` beside `check` says in which variant."""

    # words of the first of its lines
    quote: Words
    # of the document, from 1
    lines: tuple[Counted, ...] = ()
    # least and most, in the unit of what answers it; a ratio over the parent where a phase does
    promised: tuple[Positive, Positive] | None = None
    # name of a target of the plan
    target: str = ""
    # name of a check, or "gate"
    check: str = ""
    # name of a phase: what it gains over its parent, or that it is there and right
    phase: str = ""
    # title of a risk
    risk: str = ""
    # why nothing that is measured answers it
    why: str = ""


class Document(Record, frozen=True, kw_only=True):
    """The file `promises.yaml` beside a workload."""

    # what it calls itself
    document: Words
    promises: tuple[Promise, ...]
