"""What lies beside the records of a run and is too large for git: captures and exports, so that any store can serve them."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Record
from phasewise.records.prepare import Artifact


class Kept(Record, frozen=True, kw_only=True):
    """The captures and exports of one run, each by its path below the project."""

    schema: int = SCHEMA
    workload: str
    run: str
    files: tuple[Artifact, ...] = ()
