"""Predictions: what a phase should gain, on record before it is measured."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Interval, Record


class Prediction(Record, frozen=True, kw_only=True):
    """What a phase should gain over its parent in one case, from the parent's records alone."""

    phase: str
    case: str
    variant: str
    parent: str
    # interval of the speed-up; None where the rule predicts nothing
    low: float | None
    high: float | None
    # chance that the speed-up lies within; None where none is stated
    level: float | None = None
    # "critical-path" or "probe" of the parent's profile, or "author"
    basis: str
    # the rule: a finding id, or "author"
    finding: str
    # speed-up of the parent's step if what the finding claims were cured and nothing else: what `low` and `high` are made from
    claim: Interval | None = None
    # why nothing is predicted
    reason: str = ""
    # digests of the records that it was made from
    made_from: tuple[str, ...] = ()


class Predicted(Record, frozen=True, kw_only=True):
    """The predict stage of one variant; the record of its measurement holds the digest of this one."""

    schema: int = SCHEMA
    workload: str
    run: str
    variant: str
    # digest of the plan it was made from
    plan: str
    # in each case by the finding that the phase answers, and by its author
    predictions: tuple[Prediction, ...] = ()
