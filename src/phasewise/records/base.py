"""What every record is: frozen, keyword-only, strict about unknown fields."""

from __future__ import annotations

from typing import Annotated, Protocol, TypeVar

import msgspec

Seconds = float
Bytes = int
Joules = float
# what is divided by; a record with another number is damaged
Positive = Annotated[float, msgspec.Meta(gt=0)]
Counted = Annotated[int, msgspec.Meta(ge=1)]
Scalar = bool | int | float | str

# raised by one when a field changes its meaning or goes away; a record of another number is refused by name
SCHEMA = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all records; subclasses repeat `frozen` for type checkers and `kw_only`, which msgspec does not inherit."""


class StageRecord(Record, frozen=True, kw_only=True):
    """What a stage writes of one variant: which one, and where it was made."""

    schema: int = SCHEMA
    workload: str
    run: str
    variant: str
    # digest of the plan it was made from
    plan: str
    # identity of the machine, and the commit of the sources
    machine: str
    commit: str
    # files that its processes loaded of the workload and the kit, with a hash of each; None where that is not known
    loaded: dict[str, str] | None = None


class CaseRecord(Record, frozen=True, kw_only=True):
    """What a stage writes of one case: of which variants, and where it was made."""

    schema: int = SCHEMA
    workload: str
    run: str
    case: str
    # digest of the plan of each variant that has a say in what is timed
    plans: dict[str, str]
    # identity of the machine, and the commit of the sources
    machine: str
    commit: str


class Quantity(Record, frozen=True, kw_only=True):
    """A number with its unit, as checks and findings report it."""

    value: float | None
    unit: str = ""
    # bounds of a value that was measured several times; None for one that was not
    low: float | None = None
    high: float | None = None


class Interval(Record, frozen=True, kw_only=True):
    """An estimate between two bounds, on the scale of the estimate."""

    estimate: float
    low: float
    high: float


class OfCase(Protocol):
    """What is on record of one case."""

    @property
    def case(self) -> str: ...


C = TypeVar("C", bound=OfCase)
C_co = TypeVar("C_co", bound=OfCase, covariant=True)


class OfCases(Protocol[C_co]):
    """A record with an entry a case."""

    @property
    def cases(self) -> tuple[C_co, ...]: ...


def find_case(record: OfCases[C] | None, case: str) -> C | None:
    """What `record` says of `case`; None where there is no record, or nothing of the case in it."""
    return None if record is None else next((found for found in record.cases if found.case == case), None)
